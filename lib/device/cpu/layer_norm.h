#pragma once

#include <cstdint>

#include "device/cpu/context.h"
#include "device/cpu/kernel.h"

namespace tessera::device::cpu {

/// What the kernels of layer normalisation share: x as rows of the trailing `axes` dimensions, and where gamma and beta
/// are among the inputs.
struct NormSpec {
  std::int64_t rows = 0, cols = 0, global_cols = 0;
  bool scale = false, center = false;
  std::size_t parameters = 0;  // input of gamma; beta follows

  NormSpec(const KernelSpec& spec, const TensorSpec& x, std::size_t parameters_at);

  const float* gamma(const Args& args) const { return scale ? args.in(static_cast<int>(parameters)) : nullptr; }
  const float* beta(const Args& args) const {
    return center ? args.in(static_cast<int>(parameters) + (scale ? 1 : 0)) : nullptr;
  }
};

}  // namespace tessera::device::cpu
