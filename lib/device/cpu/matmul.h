#pragma once

#include "device/cpu/context.h"
#include "device/cpu/kernel.h"

namespace tessera::device::cpu {

/// Finds the fastest implementation for a `matmul` whose shape has none yet, by timing on data of its own. Whether it
/// did.
bool choose_matmul(const KernelSpec& spec, Context& context);

/// Seconds of one run of an implementation for a shape, the best of those that fit into `budget` seconds, at least two.
double time_gemm(const std::string& name, const MatmulShape& shape, Context& context, double budget);

}  // namespace tessera::device::cpu
