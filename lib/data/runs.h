#pragma once

#include <cstdint>

#include "core/shape.h"

namespace tessera::data {

/// Calls visit(offset, length) for each contiguous run of elements of a box in a row-major tensor, in order. A box that
/// is whole but for its first dimension is one run.
template <typename Visit>
void for_each_run(const Shape& shape, const Box& box, Visit visit) {
  std::int64_t length = 1, stride = 1;  // of the trailing dimensions that are whole, and of the one before them
  std::int64_t offset = 0;
  std::size_t d = shape.size();
  while (d > 0) {
    --d;
    length *= box.size[d];
    offset += box.start[d] * stride;
    stride *= shape[d];
    if (box.size[d] != shape[d]) break;
  }
  std::int64_t runs = 1;
  for (std::size_t outer = 0; outer < d; ++outer) runs *= box.size[outer];
  for (std::int64_t run = 0; run < runs; ++run) {
    auto at = offset, rest = run, step = stride;
    for (std::size_t outer = d; outer-- > 0; step *= shape[outer]) {
      at += (box.start[outer] + rest % box.size[outer]) * step;
      rest /= box.size[outer];
    }
    visit(at, length);
  }
}

}  // namespace tessera::data
