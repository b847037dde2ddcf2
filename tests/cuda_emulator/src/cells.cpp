#include "cells.h"

namespace tessera::cuda_emulator {
namespace {

enum Flag : std::uint8_t {
  kByAtomic = 1,
  kByWarps = 2,  // read since the last barrier by several warps
  kByLanes = 4,  // and by several lanes of one, since its last operation
};

bool is_ordered(const LastAccess& before, const Position& now, Space space) {
  if (before.block < (space == Space::kGlobal ? first_block_of_launch() : now.block)) return true;
  if (before.block != now.block) return false;
  if (before.epoch != now.epoch) return true;
  if ((before.flags & kByWarps) != 0 || before.thread / 32 != now.thread / 32) return false;
  if (before.thread == now.thread && (before.flags & kByLanes) == 0) return true;
  return before.warp_epoch != now.warp_epoch;
}

bool conflicts(const LastAccess& before, const Position& now, std::uint8_t bytes, AccessKind kind, Space space) {
  if (before.block == 0 || (before.bytes & bytes) == 0) return false;
  if (kind == AccessKind::kAtomic && (before.flags & kByAtomic) != 0) return false;
  return !is_ordered(before, now, space);
}

}  // namespace

std::string Cell::describe(Trouble trouble, const Position& by, AccessKind kind, Space space) const {
  const std::string thread = "thread " + std::to_string(by.thread);
  if (trouble == Trouble::kUnwritten) return thread + " reads shared memory that its block has not written";
  const LastAccess& before = trouble == Trouble::kWritten ? write : read;
  return std::string("race in ") + (space == Space::kGlobal ? "global" : "shared") + " memory: " + thread +
         (kind == AccessKind::kRead ? " reads" : " writes") + " what thread " + std::to_string(before.thread) +
         (before.block == by.block ? "" : " of another block") + (trouble == Trouble::kWritten ? " wrote" : " read") +
         " without a barrier between";
}

Trouble Cell::touch(const Position& by, std::uint8_t bytes, AccessKind kind, Space space) {
  if (conflicts(write, by, bytes, kind, space)) return Trouble::kWritten;
  if (kind != AccessKind::kRead && conflicts(read, by, bytes, kind, space)) return Trouble::kRead;
  if (kind == AccessKind::kRead && space == Space::kShared && write.block != by.block) return Trouble::kUnwritten;

  LastAccess now{by.block, by.epoch, by.warp_epoch, by.thread, bytes, 0};
  if (kind == AccessKind::kAtomic) now.flags = kByAtomic;
  if (kind != AccessKind::kRead) {
    write = now;
    return Trouble::kNone;
  }
  if (read.block == by.block && read.epoch == by.epoch) {
    now.flags = read.flags & kByWarps;
    now.bytes |= read.bytes;
    const bool same_warp = read.thread / 32 == by.thread / 32;
    if (!same_warp)
      now.flags |= kByWarps;
    else if (read.warp_epoch == by.warp_epoch && (read.thread != by.thread || (read.flags & kByLanes) != 0))
      now.flags |= kByLanes;
  }
  read = now;
  return Trouble::kNone;
}

Cell& GlobalCells::at(std::uintptr_t address) {
  const std::uintptr_t number = address / kPage;
  if (number != last_number_ || last_ == nullptr) {
    Page*& page = pages_[number];
    if (page == nullptr) {
      if (used_ == pool_.size()) pool_.push_back(std::make_unique<Page>());
      page = pool_[used_++].get();
    }
    last_number_ = number;
    last_ = page;
  }
  return last_->cells[address % kPage / 2];
}

void GlobalCells::begin_launch() {
  pages_.clear();
  used_ = 0;
  last_ = nullptr;
}

}  // namespace tessera::cuda_emulator
