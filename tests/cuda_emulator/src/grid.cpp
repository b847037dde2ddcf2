// The blocks of a grid, one after the other, each with fresh shared memory.
#include "grid.h"

#include <cstring>
#include <link.h>

#include "block_state.h"
#include "random.h"
#include "settings.h"
#include "thread_state.h"

namespace tessera::cuda_emulator {

thread_local constinit ThreadState this_thread{};

namespace {

struct Range {
  char* data = nullptr;
  std::size_t size = 0;
};

int find_thread_locals(dl_phdr_info* info, std::size_t, void* to) {
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_TLS)
      *static_cast<Range*>(to) = {static_cast<char*>(info->dlpi_tls_data), info->dlpi_phdr[i].p_memsz};
  return 1;  // the executable comes first; kernels are linked into it
}

// Of the thread that runs streams, which is the only one to ask.
const Range& static_shared() {
  static const Range range = [] {
    Range r;
    dl_iterate_phdr(find_thread_locals, &r);
    return r;
  }();
  return range;
}

alignas(256) char dynamic_shared[kMaxDynamicShared];

// With bytes that are a NaN in every float type, so that nobody relies on what a block finds there.
void fill_shared(const Launch& launch) {
  const ThreadState kept = this_thread;
  std::memset(static_shared().data, 0xFF, static_shared().size);
  this_thread = kept;
  std::memset(dynamic_shared, 0xFF, launch.dynamic_shared);
}

}  // namespace

bool run_grid(const Launch& launch) {
  BlockState& block = block_state();
  block.begin_grid(launch);
  const dim3 grid = launch.grid;
  const std::uint64_t blocks = std::uint64_t(grid.x) * grid.y * grid.z;
  const ThreadOrder order = settings().threads;
  const std::uint64_t first = order == ThreadOrder::kRandom ? random_order().next() % blocks : 0;
  for (std::uint64_t n = 0; n < blocks && !block.faulted(); ++n) {
    const std::uint64_t b = order == ThreadOrder::kReverse ? blocks - 1 - n : (n + first) % blocks;
    fill_shared(launch);
    block.begin_block({unsigned(b % grid.x), unsigned(b / grid.x % grid.y), unsigned(b / grid.x / grid.y)});
    block.run();
  }
  block.end_grid();
  return !block.faulted();
}

Position position() { return block_state().position(); }
std::uint32_t first_block_of_launch() { return block_state().first_block(); }
bool is_fiber_stack(std::uintptr_t address) { return block_state().fibers().is_stack(address); }
bool is_argument(std::uintptr_t address) {
  const KernelCall* call = block_state().launch()->call.get();
  return address - reinterpret_cast<std::uintptr_t>(call) < call->size();
}
void* dynamic_shared_memory() { return dynamic_shared; }
std::uintptr_t dynamic_shared_base() { return reinterpret_cast<std::uintptr_t>(dynamic_shared); }
std::size_t dynamic_shared_size() { return block_state().launch()->dynamic_shared; }
std::uintptr_t static_shared_base() { return reinterpret_cast<std::uintptr_t>(static_shared().data); }
std::size_t static_shared_size() { return static_shared().size; }

}  // namespace tessera::cuda_emulator
