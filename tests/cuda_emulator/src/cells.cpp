#include "cells.h"

#include <utility>

#include "traffic.h"

namespace tessera::cuda_emulator {

std::string Cell::describe(Trouble trouble, const Position& by, AccessKind kind, Space space) const {
  const std::string thread = "thread " + std::to_string(by.thread);
  if (trouble == Trouble::kUnwritten) return thread + " reads shared memory that its block has not written";
  const LastAccess& before = trouble == Trouble::kWritten ? write : read;
  return std::string("race in ") + (space == Space::kGlobal ? "global" : "shared") + " memory: " + thread +
         (kind == AccessKind::kRead ? " reads" : " writes") + " what thread " + std::to_string(before.thread) +
         (before.block == by.block ? "" : " of another block") + (trouble == Trouble::kWritten ? " wrote" : " read") +
         " without a barrier between";
}

GlobalCells::Page& GlobalCells::find_page(std::uintptr_t number) {
  Page*& page = pages_[number];
  if (page == nullptr) {
    if (used_ == pool_.size()) pool_.push_back(std::make_unique<Page>());
    page = pool_[used_++].get();
  }
  last_number_ = number;
  last_ = page;
  return *page;
}

void GlobalCells::count(std::uintptr_t address, std::size_t size, AccessKind kind, std::uint32_t launch) {
  const bool reads = kind != AccessKind::kWrite, writes = kind != AccessKind::kRead;
  Traffic::Bytes requested, unique;
  if (reads) requested.read = size;
  if (writes) requested.written = size;
  for (std::uintptr_t sector = address / kSector; sector <= (address + size - 1) / kSector; ++sector) {
    Page& page = page_of(sector * kSector);
    const std::size_t i = sector % (kPage / kSector);
    if (reads && std::exchange(page.read_by[i], launch) != launch) unique.read += kSector;
    if (writes && std::exchange(page.written_by[i], launch) != launch) unique.written += kSector;
  }
  add_traffic(requested, unique);
}

void GlobalCells::begin_launch() {
  pages_.clear();
  used_ = 0;
  last_ = nullptr;
}

}  // namespace tessera::cuda_emulator
