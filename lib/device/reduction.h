#pragma once

#include <cstdint>
#include <vector>

#include "device/operands.h"

namespace tessera::device {

/// Offsets of a multi-index over some dimensions, counted through in row-major order.
struct Walk {
  std::vector<std::int64_t> sizes, strides;

  std::int64_t count() const { return elements(sizes); }
  std::int64_t offset(std::int64_t index) const {
    std::int64_t sum = 0;
    for (std::size_t d = sizes.size(); d-- > 1; index /= sizes[d]) sum += index % sizes[d] * strides[d];
    return sizes.empty() ? 0 : sum + index * strides[0];
  }
};

/// The dimensions of reduce_sum's input, neighbours of one kind merged: those that stay, those that are summed, and the
/// last one apart.
struct Reduction {
  Walk kept, summed;
  std::int64_t inner = 1;
  bool inner_summed = true;
};

/// Throws Error (internal) for dimensions that aren't there and a result of another shape.
Reduction parse_reduction(const KernelSpec& spec);

}  // namespace tessera::device
