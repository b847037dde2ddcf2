#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "device/operands.h"

namespace tessera::device {

/// y (m, n) = a b with k summed; transposed operands lie in memory as (k, m) and (n, k).
struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;

  auto operator<=>(const MatmulShape&) const = default;
};
std::string to_string(const MatmulShape& shape);  // "256x4096x1024 nt": m x n x k

/// A kernel `matmul`, parsed.
struct MatmulSpec {
  MatmulShape shape;
  bool accumulate = false, bias = false, residual = false;
  std::string activation;  // with its constant: "relu", "leaky_relu 0.2"; "": none

  bool has_epilogue() const { return bias || residual || !activation.empty(); }
  /// Bias, activation and residual as a program of `elementwise` on y, and the shapes of its inputs: y [, bias]
  /// [, residual]. `skip_bias`, `skip_activation`: what the matmul has done itself.
  std::string epilogue(bool skip_bias = false, bool skip_activation = false) const;
  std::vector<Shape> epilogue_shapes(bool skip_bias = false) const;
};
MatmulSpec parse_matmul(const KernelSpec& spec);

}  // namespace tessera::device
