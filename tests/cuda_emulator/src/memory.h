#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::cuda_emulator {

/// Device memory lies in one range of addresses, which are never handed out twice.
constexpr std::uintptr_t kArenaBase = 0x300000000000, kArenaBytes = std::uintptr_t(1) << 40;

bool is_device_address(const void* address);
/// True if [address, address + size) lies in one live allocation. Fast for the allocation of the last call.
bool is_allocated(std::uintptr_t address, std::size_t size);
/// A sentence on what is wrong with [address, address + size) as memory of `device` (-1: of any), or "".
std::string check_range(const void* address, std::size_t size, int device = -1);
bool is_pinned(const void* address, std::size_t size);
/// A sentence on a write between the end of an allocation and its page's, or "".
std::string check_canaries();

/// Rights are per thread where the processor has protection keys: kernels and copies may, the program's threads may
/// not.
void allow_device_access();

/// What an allocation is for: only kWindow can be registered with NCCL as a window.
enum class Use { kPlain, kWindow };
/// nullptr: no memory left. Filled with NaNs, ends (rounded to 256 bytes; kWindow: pages) at a page that nobody may
/// touch.
void* allocate(std::size_t size, Use use);
/// False if it isn't the start of a live allocation.
bool release(void* address);

struct Allocation {
  std::uintptr_t start;
  std::size_t size;
  int device;
  Use use;
};
/// The live allocation that holds the address; size 0: none.
Allocation find_allocation(const void* address);

}  // namespace tessera::cuda_emulator
