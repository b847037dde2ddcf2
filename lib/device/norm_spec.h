#pragma once

#include <cstdint>

#include "device/operands.h"

// What the kernels of layer normalisation of every backend ask of their spec.
namespace tessera::device {

/// x as rows of the trailing `axes` dimensions, and where gamma and beta are among the inputs.
struct NormSpec {
  std::int64_t rows = 0, cols = 0;
  double all_cols = 0;  // of a row in all its parts
  bool scale = false, center = false;
  std::size_t parameters = 0;  // input of gamma; beta follows

  NormSpec(const KernelSpec& spec, const TensorSpec& x, std::size_t parameters_at);

  template <class Args>
  const float* gamma(const Args& args) const {
    return scale ? args.in(static_cast<int>(parameters)) : nullptr;
  }
  template <class Args>
  const float* beta(const Args& args) const {
    return center ? args.in(static_cast<int>(parameters) + (scale ? 1 : 0)) : nullptr;
  }
};

/// Of layer_norm, or of layer_norm_finish, whose input 1 are the row sums. Throws Error (internal), as all here.
NormSpec parse_layer_norm(const KernelSpec& spec, bool sums);
NormSpec parse_row_moments(const KernelSpec& spec);

/// Outputs that are not there are -1.
struct NormBackwardSpec {
  NormSpec norm;
  int dx = -1, dgamma = -1, dbeta = -1;
  bool accumulate = false;

  bool parameters() const { return dgamma >= 0 || dbeta >= 0; }
};

/// Of layer_norm_backward, or of layer_norm_backward_finish, whose input 4 are the row sums.
NormBackwardSpec parse_layer_norm_backward(const KernelSpec& spec, bool sums);
NormSpec parse_layer_norm_backward_sums(const KernelSpec& spec);

/// Rows and columns of layer_norm_backward's partial sums of dgamma and dbeta; none where it has neither.
Rows norm_partials(const KernelSpec& spec);

}  // namespace tessera::device
