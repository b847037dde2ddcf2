#pragma once

#include <string>
#include <vector>

#include "device/cpu/context.h"
#include "device/cpu/kernel.h"
#include "device/matmul_spec.h"

namespace tessera::device::cpu {

/// Finds the fastest implementation for a `matmul` whose shape has none yet, by timing on data of its own. Whether it
/// did.
bool choose_matmul(const KernelSpec& spec, Context& context);

/// Seconds of one run of each implementation for a shape. They are run in turns, so that a busy machine disturbs all
/// alike, and judged by their best run; shapes that end within microseconds get more turns, all within 2 ms for a small
/// one.
std::vector<double> time_gemms(const std::vector<std::string>& names, const MatmulShape& shape, const Context& context);

}  // namespace tessera::device::cpu
