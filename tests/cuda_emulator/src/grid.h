#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda_runtime.h"

namespace tessera::cuda_emulator {

constexpr std::size_t kMaxDynamicShared = std::size_t(227) * 1024;  // bytes, of an H200

struct Launch {
  dim3 grid, block;
  std::size_t dynamic_shared;  // bytes
  std::shared_ptr<const KernelCall> call;
};

/// Runs every block of the grid on the calling thread, one after the other. False if a fault ended it.
bool run_grid(const Launch& launch);

/// Ends the running kernel with a fault.
[[noreturn]] void kernel_fault(const std::string& what);

/// Where the running thread is, as far as order goes: two accesses of different threads of a block are ordered if a
/// barrier stands between them, two of a warp also by an operation of the warp.
struct Position {
  std::uint32_t block;  // counts all blocks of the process, from 1
  std::uint16_t epoch, warp_epoch, thread;
};
Position position();
std::uint32_t first_block_of_launch();

// What lies at an address that a kernel uses.
bool is_fiber_stack(std::uintptr_t address);
bool is_argument(std::uintptr_t address);
std::uintptr_t dynamic_shared_base();
std::size_t dynamic_shared_size();
/// The range in which the statics of kernels that are __shared__ lie; the executable's thread-local variables.
std::uintptr_t static_shared_base();
std::size_t static_shared_size();

}  // namespace tessera::cuda_emulator
