#pragma once

#include <cstdint>

#include "device/operands.h"

namespace tessera::device {

/// What weighted_sum and its gradient share: losses l (b...) of which the first rows are real, one weight for every
/// `each` of them.
struct Weighting {
  RowMask mask;
  std::int64_t row = 1;   // elements of l in a row
  std::int64_t each = 1;  // elements of l that share a weight
  bool weights = false;
  enum class Denominator : std::uint8_t { kRows, kInput, kOne } kind = Denominator::kOne;
  double positions = 1;  // global elements a row
  int weights_at = 1, denominator_at = 1;

  /// Throws Error (internal) for operands that do not fit.
  Weighting(const KernelSpec& spec, const TensorSpec& losses);

  std::int64_t all() const { return mask.rows * row; }
};

}  // namespace tessera::device
