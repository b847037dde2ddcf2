#pragma once

#include <cstddef>

namespace tessera::cuda_emulator {

enum class AccessKind { kRead, kWrite, kAtomic };

/// One access of a kernel's thread: faults unless it is aligned, lies in memory that the kernel may use so, and is
/// ordered with the accesses of other threads. Does nothing outside kernels.
void check_access(const volatile void* address, std::size_t size, AccessKind kind);

}  // namespace tessera::cuda_emulator
