#pragma once

#include <cstdint>

#include "device/operands.h"

// What a kernel takes of the scratch, and the cuts that this follows from. Needs no CUDA: a plan is made where none is.
namespace tessera::device::cuda {

/// Workspace of every product, NVIDIA's advice for Hopper and later.
inline constexpr std::int64_t kBlasWorkspaceBytes = 32 << 20;

/// Bytes of the scratch that the kernel takes.
std::int64_t scratch_bytes(const KernelSpec& spec);

}  // namespace tessera::device::cuda
