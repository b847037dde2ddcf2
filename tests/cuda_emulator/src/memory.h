#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::cuda_emulator {

bool is_device_address(const void* address);
/// True if [address, address + size) lies in one live allocation. Fast for the allocation of the last call.
bool is_allocated(std::uintptr_t address, std::size_t size);
/// A sentence on what is wrong with [address, address + size) as memory of `device` (-1: of any), or "".
std::string check_range(const void* address, std::size_t size, int device = -1);
/// A sentence on a write between the end of an allocation and its page's, or "".
std::string check_canaries();

/// What an allocation is for: only kWindow can be registered with NCCL as a window.
enum class Use { kPlain, kWindow };
/// nullptr: no memory left. Filled with NaNs, ends (rounded to 256 bytes; kWindow: pages) at a page that nobody may
/// touch.
void* allocate(std::size_t size, Use use);
/// False if it isn't the start of a live allocation.
bool release(void* address);
std::size_t used_memory(int device);  // bytes

// Memory of the host that a device may copy from and to at any time.
void add_pinned(const void* address, std::size_t size);
bool remove_pinned(const void* address);
bool is_pinned(const void* address, std::size_t size);

struct Allocation {
  std::uintptr_t start;
  std::size_t size;
  int device;
  Use use;
};
/// The live allocation that holds the address; size 0: none.
Allocation find_allocation(const void* address);

}  // namespace tessera::cuda_emulator
