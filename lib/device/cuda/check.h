#pragma once

#include <cuda_runtime_api.h>

#include "core/error.h"

namespace tessera::device::cuda {

/// Throws Error (internal) that names the call, where it did not succeed.
inline void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess)
    fail(ExitCode::kInternal, "{} failed: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace tessera::device::cuda
