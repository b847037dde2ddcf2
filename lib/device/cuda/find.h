#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#include "device/cuda/index.h"

// Included by .cu files only.
namespace tessera::device::cuda {

/// Leaves a wrong value in a place of Checks; of several the smallest index stays.
inline __device__ void report(std::uint64_t* place, std::int64_t index, std::int32_t value) {
  const auto find = static_cast<unsigned long long>(find_of(index, value));
  atomicMin(reinterpret_cast<unsigned long long*>(place), find);
}

}  // namespace tessera::device::cuda
