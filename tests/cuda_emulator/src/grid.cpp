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
RunningThread running_thread;

namespace {

int find_thread_locals(dl_phdr_info* info, std::size_t, void* to) {
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_TLS)
      *static_cast<AddressRange*>(to) = {reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data),
                                         info->dlpi_phdr[i].p_memsz};
  return 1;  // the executable comes first; kernels are linked into it
}

alignas(256) char dynamic_shared[kMaxDynamicShared];

// With bytes that are a NaN in every float type, so that nobody relies on what a block finds there.
void fill_shared() {
  const ThreadState kept = this_thread;
  const AddressRange& statics = running_thread.static_shared;
  std::memset(reinterpret_cast<void*>(statics.start), 0xFF, statics.size);
  this_thread = kept;
  std::memset(dynamic_shared, 0xFF, running_thread.dynamic_shared.size);
}

void set_ranges(const Launch& launch) {
  RunningThread& r = running_thread;
  r.arguments = {reinterpret_cast<std::uintptr_t>(launch.call.get()), launch.call->size()};
  r.dynamic_shared = {reinterpret_cast<std::uintptr_t>(dynamic_shared), launch.dynamic_shared};
  if (r.static_shared.size == 0) dl_iterate_phdr(find_thread_locals, &r.static_shared);
}

}  // namespace

bool run_grid(const Launch& launch) {
  BlockState& block = block_state();
  block.begin_grid(launch);
  set_ranges(launch);
  const dim3 grid = launch.grid;
  const std::uint64_t blocks = std::uint64_t(grid.x) * grid.y * grid.z;
  const ThreadOrder order = settings().threads;
  const std::uint64_t first = order == ThreadOrder::kRandom ? random_order().next() % blocks : 0;
  for (std::uint64_t n = 0; n < blocks && !block.faulted(); ++n) {
    const std::uint64_t b = order == ThreadOrder::kReverse ? blocks - 1 - n : (n + first) % blocks;
    fill_shared();
    block.begin_block({unsigned(b % grid.x), unsigned(b / grid.x % grid.y), unsigned(b / grid.x / grid.y)});
    block.run();
  }
  block.end_grid();
  return !block.faulted();
}

void* dynamic_shared_memory() { return dynamic_shared; }

}  // namespace tessera::cuda_emulator
