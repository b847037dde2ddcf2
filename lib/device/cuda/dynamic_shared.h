#pragma once

#include <cuda_runtime.h>

// Included by .cu files only.
namespace tessera::device::cuda {

/// The shared memory that LaunchShape::shared_bytes asks for, aligned to 16 bytes.
template <typename T>
__device__ T* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
#else
  return static_cast<T*>(cuda_emulator::dynamic_shared_memory());
#endif
}

}  // namespace tessera::device::cuda
