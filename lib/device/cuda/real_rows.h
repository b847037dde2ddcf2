#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#include "device/operands.h"

// Included by .cu files only.
namespace tessera::device::cuda {

/// RowMask::real(), from the parameters in the device's memory.
inline __device__ std::int64_t real_rows(const RowMask& mask, const StepParams* params, std::int64_t micro_batch) {
  const auto real = params->real_rows - (mask.start + micro_batch * mask.batch_rows);
  return real < 0 ? 0 : real > mask.rows ? mask.rows : real;
}

}  // namespace tessera::device::cuda
