#pragma once

#include <cstddef>
#include <cstdint>

#include "core/shape.h"

namespace tessera {

/// The longest pieces of a box that are contiguous in the whole row-major tensor, in order, all of one length.
/// (4, 6) and box [1:3, 2:5]: runs of 3 elements at 8 and 14. Keeps references to both and allocates nothing.
class BoxRuns {
 public:
  /// Throws Error (internal) if the box doesn't lie in the tensor.
  BoxRuns(const Shape& shape, const Box& box);

  std::int64_t count() const { return count_; }
  std::int64_t length() const { return length_; }  // elements
  /// The first element of run k in the tensor; in the box it is element k * length().
  std::int64_t start(std::int64_t k) const;
  /// After the last element of the last run, in the tensor.
  std::int64_t end() const { return count_ == 0 ? first_ : start(count_ - 1) + length_; }
  /// Elements from one run's start to the next one's, where the innermost loop makes it; 0 if there is just one.
  std::int64_t stride() const { return outer_ == 0 ? 0 : stride_; }
  /// Runs that follow each other at this distance: a divisor of count().
  std::int64_t neighbours() const { return outer_ == 0 ? 1 : box_.size[outer_ - 1]; }

  /// visit(start) of each run.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::int64_t k = 0; k < count_; ++k) visit(start(k));
  }

 private:
  const Shape& shape_;
  const Box& box_;
  std::int64_t first_ = 0, length_ = 1, count_ = 1;
  std::int64_t stride_ = 1;  // elements of all dimensions of a run, of the whole tensor
  std::size_t outer_ = 0;    // dimensions before those of a run
};

}  // namespace tessera
