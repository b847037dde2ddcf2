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

/// Where a thread is, as far as order goes: two accesses of different threads of a block are ordered if a barrier
/// stands between them, two of a warp also by an operation of the warp.
struct Position {
  std::uint32_t block;  // counts all blocks of the process, from 1
  std::uint16_t epoch, warp_epoch, thread;
};

struct AddressRange {
  std::uintptr_t start = 0;
  std::size_t size = 0;
  bool holds(std::uintptr_t address) const { return address - start < size; }
};

/// The kernel's thread that runs now, and what lies where: plain variables, as the access check asks at each access.
struct RunningThread {
  Position position{};
  std::uint32_t first_block = 0;  // of the launch
  AddressRange stacks, arguments, dynamic_shared;
  AddressRange static_shared;  // the executable's thread-local variables: kernels' statics that are __shared__
};
extern RunningThread running_thread;

}  // namespace tessera::cuda_emulator
