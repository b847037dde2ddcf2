#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#include "device/cuda/four.h"
#include "device/cuda/launch.h"

// Included by .cu files only: kernels over tensors of one shape, four elements of a thread at a time.
namespace tessera::device::cuda {

inline constexpr int kFlatThreads = 256;

/// f(first element, their number) for all elements of n, four by four.
template <typename F>
__device__ void each_four(std::int64_t n, const F& f) {
  const auto stride = threads_of_grid() * 4;
  for (auto at = thread_of_grid() * 4; at < n; at += stride) f(at, n - at < 4 ? static_cast<int>(n - at) : 4);
}

/// What a block's first thread computes, for all of it. To be called by all threads, once in a kernel.
template <typename F>
__device__ auto once_a_block(const F& f) {
  __shared__ decltype(f()) value;
  if (threadIdx.x == 0) value = f();
  __syncthreads();
  return value;
}

/// Few blocks, so that what each computes once costs little beside its elements.
inline LaunchShape flat_shape(std::int64_t n) {
  constexpr std::int64_t kMost = 1024;
  const auto blocks = blocks_for(n, kFlatThreads * 4);
  return {blocks < kMost ? blocks : kMost, kFlatThreads};
}

template <typename... P>
__host__ __device__ bool aligned_to_four(const P*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) | ...) % 16) == 0;
}

}  // namespace tessera::device::cuda
