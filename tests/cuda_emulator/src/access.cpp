// What the hooks of g++ -fsanitize=thread see: every load and store of a kernel, checked exactly.
#include "access.h"

#include "cells.h"
#include "cuda_emulator/atomics.h"
#include "memory.h"
#include "protection.h"
#include "thread_state.h"

namespace tessera::cuda_emulator {
namespace {

extern "C" {
// By the linker.
extern char __executable_start, __data_start;
extern char __start_cuda_builtin, __stop_cuda_builtin;
extern char __start_cuda_constant __attribute__((weak)), __stop_cuda_constant __attribute__((weak));
}

struct Cells {
  GlobalCells global;
  std::uint32_t launch = 0;  // by its first block
  std::vector<Cell> dynamic_shared = std::vector<Cell>(kMaxDynamicShared / 2);
  std::vector<Cell> static_shared = std::vector<Cell>(running_thread.static_shared.size / 2 + 1);
};

Cells& cells() {
  static Cells& c = *new Cells;
  if (c.launch != running_thread.first_block) {
    c.launch = running_thread.first_block;
    c.global.begin_launch();
  }
  return c;
}

AddressRange between(const char& first, const char& last) {
  const auto start = reinterpret_cast<std::uintptr_t>(&first);
  return {start, reinterpret_cast<std::uintptr_t>(&last) - start};
}

// Calls touch(index of the cell, its bytes) for each cell of the range, counted from `base`.
template <typename F>
void each_cell(std::uintptr_t address, std::size_t size, std::uintptr_t base, F&& touch) {
  const std::uintptr_t first = address - base, last = first + size - 1;
  for (std::uintptr_t i = first / 2; i <= last / 2; ++i)
    touch(i, std::uint8_t((i * 2 >= first ? 1 : 0) | (i * 2 + 1 <= last ? 2 : 0)));
}

void touch(Cell& cell, std::uint8_t bytes, AccessKind kind, Space space) {
  const Position& by = running_thread.position;
  const std::uint32_t oldest = space == Space::kGlobal ? running_thread.first_block : by.block;
  const Trouble trouble = cell.touch(by, bytes, kind, space, oldest);
  if (trouble != Trouble::kNone) kernel_fault(cell.describe(trouble, by, kind, space));
}

void check_global(std::uintptr_t a, std::size_t size, AccessKind kind) {
  if (!is_allocated(a, size))
    kernel_fault((kind == AccessKind::kRead ? "read: " : "write: ") +
                 check_range(reinterpret_cast<const void*>(a), size));
  GlobalCells& global = cells().global;
  global.count(a, size, kind, running_thread.first_block);
  each_cell(a, size, 0,
            [&](std::uintptr_t i, std::uint8_t bytes) { touch(global.at(i * 2), bytes, kind, Space::kGlobal); });
}

void check_shared(std::vector<Cell>& shared, std::uintptr_t base, std::uintptr_t a, std::size_t size, AccessKind kind) {
  each_cell(a, size, base,
            [&](std::uintptr_t i, std::uint8_t bytes) { touch(shared[i], bytes, kind, Space::kShared); });
}

// What else a kernel may read: its arguments, constants, read-only data.
bool is_readable(std::uintptr_t a) {
  static const AddressRange kImage = between(__executable_start, __data_start);
  static const AddressRange kConstants =
      &__start_cuda_constant == nullptr ? AddressRange{} : between(__start_cuda_constant, __stop_cuda_constant);
  return running_thread.arguments.holds(a) || kConstants.holds(a) || kImage.holds(a);
}

}  // namespace

void check_access(const volatile void* address, std::size_t size, AccessKind kind) {
  static const AddressRange kBuiltins = between(__start_cuda_builtin, __stop_cuda_builtin);
  const RunningThread& r = running_thread;
  const auto a = reinterpret_cast<std::uintptr_t>(address);
  if (!this_thread.in_kernel || size == 0 || r.stacks.holds(a) || kBuiltins.holds(a)) return;
  if (a - kArenaBase < kArenaBytes) return check_global(a, size, kind);
  if (a - r.dynamic_shared.start < kMaxDynamicShared) {
    if (const std::size_t end = a - r.dynamic_shared.start + size; end > r.dynamic_shared.size)
      kernel_fault("dynamic shared memory: byte " + std::to_string(end - 1) + " of " +
                   std::to_string(r.dynamic_shared.size));
    return check_shared(cells().dynamic_shared, r.dynamic_shared.start, a, size, kind);
  }
  if (r.static_shared.holds(a)) return check_shared(cells().static_shared, r.static_shared.start, a, size, kind);
  if (kind == AccessKind::kRead && is_readable(a)) return;
  kernel_fault(std::string(kind == AccessKind::kRead ? "read" : "write") + " of host memory by a kernel");
}

void note_atomic(const volatile void* address, std::size_t size) { check_access(address, size, AccessKind::kAtomic); }

}  // namespace tessera::cuda_emulator
