// What the hooks of g++ -fsanitize=thread see: every load and store of a kernel, checked exactly.
#include "access.h"

#include "cells.h"
#include "cuda_emulator/atomics.h"
#include "memory.h"
#include "thread_state.h"

namespace tessera::cuda_emulator {
namespace {

extern "C" {
// By the linker.
extern char __executable_start, __data_start;  // NOLINT(bugprone-reserved-identifier,readability-identifier-naming)
extern char __start_cuda_builtin, __stop_cuda_builtin;  // NOLINT(bugprone-reserved-identifier)
extern char __start_cuda_constant __attribute__((weak)), __stop_cuda_constant __attribute__((weak));  // NOLINT
}

struct Cells {
  GlobalCells global;
  std::uint32_t launch = 0;  // by its first block
  std::vector<Cell> dynamic_shared = std::vector<Cell>(kMaxDynamicShared / 2);
  std::vector<Cell> static_shared = std::vector<Cell>(static_shared_size() / 2 + 1);
};

Cells& cells() {
  static Cells& c = *new Cells;
  if (const std::uint32_t launch = first_block_of_launch(); c.launch != launch) {
    c.launch = launch;
    c.global.begin_launch();
  }
  return c;
}

bool lies_in(std::uintptr_t address, const char& first, const char& last) {
  return address >= reinterpret_cast<std::uintptr_t>(&first) && address < reinterpret_cast<std::uintptr_t>(&last);
}

// Calls touch(index of the cell, its bytes) for each cell of the range, counted from `base`.
template <typename F>
void each_cell(std::uintptr_t address, std::size_t size, std::uintptr_t base, F&& touch) {
  const std::uintptr_t first = address - base, last = first + size - 1;
  for (std::uintptr_t i = first / 2; i <= last / 2; ++i)
    touch(i, std::uint8_t((i * 2 >= first ? 1 : 0) | (i * 2 + 1 <= last ? 2 : 0)));
}

void touch(Cell& cell, const Position& by, std::uint8_t bytes, AccessKind kind, Space space) {
  const Trouble trouble = cell.touch(by, bytes, kind, space);
  if (trouble != Trouble::kNone) kernel_fault(cell.describe(trouble, by, kind, space));
}

void check_global(std::uintptr_t a, std::size_t size, AccessKind kind) {
  if (!is_allocated(a, size))
    kernel_fault((kind == AccessKind::kRead ? "read: " : "write: ") +
                 check_range(reinterpret_cast<const void*>(a), size));
  const Position p = position();
  GlobalCells& global = cells().global;
  each_cell(a, size, 0,
            [&](std::uintptr_t i, std::uint8_t bytes) { touch(global.at(i * 2), p, bytes, kind, Space::kGlobal); });
}

void check_shared(std::vector<Cell>& shared, std::uintptr_t base, std::uintptr_t a, std::size_t size, AccessKind kind) {
  const Position p = position();
  each_cell(a, size, base,
            [&](std::uintptr_t i, std::uint8_t bytes) { touch(shared[i], p, bytes, kind, Space::kShared); });
}

// What else a kernel may read: constants, read-only data, its arguments.
bool is_readable(std::uintptr_t a) {
  return (&__start_cuda_constant != nullptr && lies_in(a, __start_cuda_constant, __stop_cuda_constant)) ||
         lies_in(a, __executable_start, __data_start) || is_argument(a);
}

}  // namespace

void check_access(const volatile void* address, std::size_t size, AccessKind kind) {
  if (!this_thread.in_kernel || size == 0) return;
  const auto a = reinterpret_cast<std::uintptr_t>(address);
  if (is_fiber_stack(a)) return;
  if (a - kArenaBase < kArenaBytes) return check_global(a, size, kind);
  if (lies_in(a, __start_cuda_builtin, __stop_cuda_builtin)) return;
  if (a - dynamic_shared_base() < kMaxDynamicShared) {
    if (a - dynamic_shared_base() + size > dynamic_shared_size())
      kernel_fault("dynamic shared memory: byte " + std::to_string(a - dynamic_shared_base() + size - 1) + " of " +
                   std::to_string(dynamic_shared_size()));
    return check_shared(cells().dynamic_shared, dynamic_shared_base(), a, size, kind);
  }
  if (a - static_shared_base() < static_shared_size())
    return check_shared(cells().static_shared, static_shared_base(), a, size, kind);
  if (kind == AccessKind::kRead && is_readable(a)) return;
  kernel_fault(std::string(kind == AccessKind::kRead ? "read" : "write") + " of host memory by a kernel");
}

void note_atomic(const volatile void* address, std::size_t size) { check_access(address, size, AccessKind::kAtomic); }

}  // namespace tessera::cuda_emulator
