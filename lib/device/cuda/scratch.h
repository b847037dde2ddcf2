#pragma once

#include <cstdint>

#include "device/matmul_spec.h"
#include "device/operands.h"

// What a kernel takes of the scratch, and the cuts that this follows from. Needs no CUDA: a plan is made where none is.
namespace tessera::device::cuda {

/// Workspace of a product: room for sixteen partial sums of each element, at most the 32 MiB that NVIDIA advises for
/// Hopper and later.
std::int64_t blas_workspace_bytes(const MatmulShape& shape);

/// Blocks of layer_norm_backward and its finish, of which each leaves a row of partial sums of dgamma and of dbeta.
std::int64_t layer_norm_blocks(const Rows& rows);

/// Bytes of the scratch that the kernel takes.
std::int64_t scratch_bytes(const KernelSpec& spec);

}  // namespace tessera::device::cuda
