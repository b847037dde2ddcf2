#include "memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture.h"
#include "cuda_runtime_api.h"
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
  int key = -1;  // of the processor's memory protection, or -1
};

std::atomic<std::uint64_t> releases{0};

// What a wild access of a kernel or an access of the program's own to device memory ends with.
void on_segmentation_fault(int, siginfo_t* info, void*) {
  if (!is_device_address(info->si_addr)) {
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  std::array<char, 160> text;
  const int n = std::snprintf(text.data(), text.size(), "cuda emulator: %s touched device memory at %p%s\n",
                              this_thread.in_kernel ? "a kernel" : "the program", info->si_addr,
                              info->si_code == SEGV_PKUERR ? "" : ", where there is no allocation");
  if (write(2, text.data(), std::size_t(n)) < 0) _exit(99);
  _exit(98);
}

Memory& map_memory() {
  void* p = mmap(reinterpret_cast<void*>(kArenaBase), kArenaBytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (p == MAP_FAILED) {
    std::perror("cuda emulator: device memory");
    std::abort();
  }
  struct sigaction action {};
  action.sa_sigaction = on_segmentation_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  auto& m = *new Memory;  // never destroyed: the thread that runs streams outlives main
  m.key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
  return m;
}

Memory& memory() {
  static Memory& m = map_memory();
  return m;
}

void protect(std::uintptr_t start, std::size_t size, int rights) {
  void* p = reinterpret_cast<void*>(start);
  const int key = memory().key;
  if ((key >= 0 ? pkey_mprotect(p, size, rights, key) : mprotect(p, size, rights)) != 0) {
    std::perror("cuda emulator: rights of device memory");  // as after too many mappings
    std::abort();
  }
}

/// The calling thread may touch device memory while this lives.
class Access {
 public:
  Access() : key_(memory().key), before_(key_ >= 0 ? pkey_get(key_) : 0) { set(0); }
  ~Access() { set(unsigned(before_)); }
  Access(const Access&) = delete;

 private:
  void set(unsigned rights) const {
    if (key_ >= 0) pkey_set(key_, rights);
  }
  int key_, before_;
};

const Blocks::value_type* at_or_before(const Blocks& blocks, std::uintptr_t address) {
  const auto next = blocks.upper_bound(address);
  return next == blocks.begin() ? nullptr : &*std::prev(next);
}

}  // namespace

bool is_device_address(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) - kArenaBase < kArenaBytes;
}

void allow_device_access() {
  if (memory().key >= 0) pkey_set(memory().key, 0);
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
  protect(m.top, pages, PROT_READ | PROT_WRITE);
  {
    const Access access;
    std::memset(reinterpret_cast<void*>(start), 0xFF, size);
    std::memset(reinterpret_cast<void*>(start + size), kCanary, padded - size);
  }
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
  const std::uintptr_t page = start / kPage * kPage, bytes = start + block.padded - page;
  madvise(reinterpret_cast<void*>(page), bytes, MADV_DONTNEED);
  if (bytes > 0) protect(page, bytes, PROT_NONE);
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

bool is_pinned(const void* address, std::size_t size) {
  const std::lock_guard lock(memory().mutex);
  const auto a = reinterpret_cast<std::uintptr_t>(address);
  const auto next = memory().pinned.upper_bound(a);
  return next != memory().pinned.begin() && a + size <= std::prev(next)->first + std::prev(next)->second;
}

std::string check_canaries() {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const Access access;
  for (const auto& [start, block] : m.live)
    for (std::size_t n = block.size; n < block.padded; ++n)
      if (reinterpret_cast<const unsigned char*>(start)[n] != kCanary)
        return "a write " + std::to_string(n - block.size) + " bytes past the end of an allocation of " +
               std::to_string(block.size) + " bytes";
  return "";
}

namespace {

cudaError_t allocate_pinned(void** p, std::size_t size) {
  if (breaks_capture("an allocation of pinned memory")) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard lock(memory().mutex);
  if (posix_memalign(p, kPage, std::max<std::size_t>(size, 1)) != 0) return cudaErrorMemoryAllocation;
  memory().pinned[reinterpret_cast<std::uintptr_t>(*p)] = size;
  return cudaSuccess;
}

}  // namespace
}  // namespace tessera::cuda_emulator

using namespace tessera::cuda_emulator;

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
extern "C" {

cudaError_t cudaMallocHost(void** p, size_t size) { return allocate_pinned(p, size); }
cudaError_t cudaHostAlloc(void** p, size_t size, unsigned) { return allocate_pinned(p, size); }

cudaError_t cudaFreeHost(void* p) {
  if (p == nullptr) return cudaSuccess;
  if (breaks_capture("cudaFreeHost")) return cudaErrorStreamCaptureUnsupported;
  cudaDeviceSynchronize();
  const std::lock_guard lock(memory().mutex);
  if (memory().pinned.erase(reinterpret_cast<std::uintptr_t>(p)) == 0) return cudaErrorInvalidValue;
  std::free(p);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(memory().mutex);
  *total = settings().memory;
  *free = *total - std::min(*total, memory().used[std::size_t(this_thread.device)]);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  *attributes = {};
  attributes->device = -1;
  attributes->hostPointer = const_cast<void*>(p);
  if (const Allocation found = find_allocation(p); found.start != 0) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = found.device;
    attributes->devicePointer = const_cast<void*>(p);
    attributes->hostPointer = nullptr;
  } else if (is_pinned(p, 1)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = this_thread.device;
    attributes->devicePointer = const_cast<void*>(p);
  } else {
    attributes->type = cudaMemoryTypeUnregistered;
  }
  return cudaSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
