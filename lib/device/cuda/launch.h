#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <utility>

#include "device/cuda/check.h"
#include "device/cuda/index.h"

namespace tessera::device::cuda {

struct LaunchShape {
  std::int64_t blocks = 1;
  int threads = 256;  // a block; a multiple of 32
  std::size_t shared_bytes = 0;
};

/// Queues a kernel. Nothing is launched where there are no blocks. Kernels are started here and nowhere else: the same
/// line serves nvcc and the emulator.
template <typename... P, typename... A>
void launch(cudaStream_t stream, const LaunchShape& shape, void (*kernel)(P...), A&&... args) {
  if (shape.blocks == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<P>(std::forward<A>(args))...), "cudaLaunchKernelEx");
}

/// The thread's number among those of the grid, and theirs.
inline __device__ std::int64_t thread_of_grid() { return thread_of_grid(blockIdx.x, blockDim.x, threadIdx.x); }
inline __device__ std::int64_t threads_of_grid() { return threads_of_grid(gridDim.x, blockDim.x); }

/// Blocks of a kernel whose threads stride over the grid, `per_block` elements at a time. Of the shape alone, never of
/// the card, so that sums are made in the same order everywhere.
inline std::int64_t blocks_for(std::int64_t elements, std::int64_t per_block) {
  constexpr std::int64_t kMost = 4096;
  const auto blocks = (elements + per_block - 1) / per_block;
  return blocks < kMost ? blocks : kMost;
}

}  // namespace tessera::device::cuda
