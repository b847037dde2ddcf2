#pragma once

#include <cstdint>

#include "device/matmul_spec.h"

// What a kernel takes of the scratch, and the cuts that this follows from. Needs no CUDA: a plan is made where none is.
namespace tessera::device::cuda {

/// Workspace of a product: room for sixteen partial sums of each element, at most the 32 MiB that NVIDIA advises for
/// Hopper and later.
std::int64_t blas_workspace_bytes(const MatmulShape& shape);

/// Bytes of the scratch that the kernel takes.
std::int64_t scratch_bytes(const KernelSpec& spec);

}  // namespace tessera::device::cuda
