#include "memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "protection.h"
#include "settings.h"
#include "thread_state.h"

namespace tessera::cuda_emulator {
namespace {

constexpr unsigned char kCanary = 0xA5;
constexpr std::size_t kPage = 4096, kAlignment = 256, kGranule = 512;  // kGranule: what an allocation is accounted in

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

struct Block {
  std::size_t size, padded;  // bytes; padded: to the page that nobody may touch
  int device;
  Use use;
};
using Blocks = std::map<std::uintptr_t, Block>;

struct Memory {
  std::recursive_mutex mutex;
  Blocks live, freed;  // freed: who uses one is told so
  std::map<std::uintptr_t, std::size_t> pinned;
  std::array<std::size_t, 64> used{};  // bytes, by device
  std::uintptr_t top = kArenaBase + kPage;
};

std::atomic<std::uint64_t> releases{0};

Memory& memory() {
  static Memory& m = *new Memory;  // never destroyed: the thread that runs streams outlives main
  return m;
}

const Blocks::value_type* at_or_before(const Blocks& blocks, std::uintptr_t address) {
  const auto next = blocks.upper_bound(address);
  return next == blocks.begin() ? nullptr : &*std::prev(next);
}

}  // namespace

bool is_device_address(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) - kArenaBase < kArenaBytes;
}

void* allocate(std::size_t size, Use use) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const int device = this_thread.device;
  const std::size_t accounted = round_up(size, kGranule);
  if (accounted > settings().memory || m.used[std::size_t(device)] > settings().memory - accounted) return nullptr;
  m.used[std::size_t(device)] += accounted;
  const std::size_t padded = round_up(size, use == Use::kWindow ? kPage : kAlignment), pages = round_up(padded, kPage);
  const std::uintptr_t start = m.top + pages - padded;
  protection().add(m.top, pages, [&] {
    std::memset(reinterpret_cast<void*>(start), 0xFF, size);
    std::memset(reinterpret_cast<void*>(start + size), kCanary, padded - size);
  });
  m.live[start] = {size, padded, device, use};
  m.top += pages + kPage;
  return reinterpret_cast<void*>(start);
}

bool release(void* address) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const auto i = m.live.find(start);
  if (i == m.live.end()) return false;
  ++releases;
  const Block& block = m.freed.insert(m.live.extract(i)).position->second;
  m.used[std::size_t(block.device)] -= round_up(block.size, kGranule);
  const std::uintptr_t page = start / kPage * kPage;
  if (block.padded > 0) protection().remove(page, start + block.padded - page);
  return true;
}

bool is_allocated(std::uintptr_t address, std::size_t size) {
  static std::uintptr_t first = 0, last = 0;  // of one thread, the one that runs kernels
  static std::uint64_t known = 0;
  if (known == releases && address >= first && address + size <= last) return true;
  const std::lock_guard lock(memory().mutex);
  const auto* block = at_or_before(memory().live, address);
  if (block == nullptr || address + size > block->first + block->second.size) return false;
  first = block->first, last = first + block->second.size, known = releases;
  return true;
}

std::string check_range(const void* address, std::size_t size, int device) {
  if (size == 0) return "";
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%p", address);
  const std::string at = text.data();
  if (!is_device_address(address)) return at + " is not device memory";
  const std::lock_guard lock(memory().mutex);
  const auto a = reinterpret_cast<std::uintptr_t>(address);
  const auto *live = at_or_before(memory().live, a), *freed = at_or_before(memory().freed, a);
  const auto* found = live == nullptr || (freed != nullptr && freed->first > live->first) ? freed : live;
  if (found == nullptr) return at + " lies before every allocation";
  const auto& [start, block] = *found;
  const std::string which = "the allocation of " + std::to_string(block.size) + " bytes that starts " +
                            std::to_string(a - start) + " bytes before " + at;
  if (found == freed) return which + " was freed";
  if (a + size > start + block.size) return std::to_string(size) + " bytes there pass the end of " + which;
  if (device >= 0 && device != block.device) return which + " belongs to device " + std::to_string(block.device);
  return "";
}

Allocation find_allocation(const void* address) {
  const std::lock_guard lock(memory().mutex);
  const auto a = reinterpret_cast<std::uintptr_t>(address);
  const auto* found = at_or_before(memory().live, a);
  if (found == nullptr || a >= found->first + std::max<std::size_t>(found->second.size, 1)) return {};
  return {found->first, found->second.size, found->second.device, found->second.use};
}

void add_pinned(const void* address, std::size_t size) {
  const std::lock_guard lock(memory().mutex);
  memory().pinned[reinterpret_cast<std::uintptr_t>(address)] = size;
}

bool remove_pinned(const void* address) {
  const std::lock_guard lock(memory().mutex);
  return memory().pinned.erase(reinterpret_cast<std::uintptr_t>(address)) > 0;
}

std::size_t used_memory(int device) {
  const std::lock_guard lock(memory().mutex);
  return memory().used[std::size_t(device)];
}

bool is_pinned(const void* address, std::size_t size) {
  const std::lock_guard lock(memory().mutex);
  const auto a = reinterpret_cast<std::uintptr_t>(address);
  const auto next = memory().pinned.upper_bound(a);
  return next != memory().pinned.begin() && a + size <= std::prev(next)->first + std::prev(next)->second;
}

std::string check_canaries() {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  for (const auto& [start, block] : m.live)
    for (std::size_t n = block.size; n < block.padded; ++n)
      if (reinterpret_cast<const unsigned char*>(start)[n] != kCanary)
        return "a write " + std::to_string(n - block.size) + " bytes past the end of an allocation of " +
               std::to_string(block.size) + " bytes";
  return "";
}

}  // namespace tessera::cuda_emulator
