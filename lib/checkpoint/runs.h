#pragma once

#include <cstdint>
#include <functional>

#include "core/shape.h"

namespace tessera::checkpoint {

/// The longest pieces of a box that are contiguous in the whole row-major tensor, in order: all of one length.
/// (4, 6) and box [1:3, 2:5]: runs of 3 elements at 8 and 14.
struct Runs {
  std::int64_t length = 0;  // elements
  std::int64_t count = 0;
  std::int64_t gap = 0;  // from one run's start to the next one's, where the innermost loop makes it

  /// Calls with each run's first element in the tensor; in the box run k begins at k * length.
  void for_each(const std::function<void(std::int64_t)>& call) const;

  Shape outer_size, outer_stride;   // of the loops around a run
  std::int64_t first = 0, end = 0;  // of all runs, in the tensor
};

/// Throws (internal) if the box doesn't lie in the tensor.
Runs runs_of(const Shape& shape, const Box& box);

}  // namespace tessera::checkpoint
