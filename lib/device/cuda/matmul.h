#pragma once

#include "device/cuda/kernel.h"

namespace tessera::device::cuda {

/// Finds the fastest algorithm for a `matmul` that has none yet, by timing on data of its own: for the fused epilogue
/// and the plain product, whichever is faster with what must follow it. Whether it did.
bool choose_matmul(const KernelSpec& spec, Context& context);

}  // namespace tessera::device::cuda
