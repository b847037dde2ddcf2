#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// Sizes of the dimensions, row-major: the last one is contiguous. A scalar has none.
using Shape = std::vector<std::int64_t>;

/// Product of the sizes; 1 for a scalar.
std::int64_t elements(const Shape& shape);

/// "(1024, 4096)", "()" for a scalar.
std::string to_string(const Shape& shape);

/// Elements from one index to the next in each dimension of a contiguous tensor.
Shape strides_of(const Shape& shape);

/// A part of a tensor: in dimension d the indices start[d] .. start[d] + size[d] - 1.
struct Box {
  std::vector<std::int64_t> start;
  Shape size;

  bool operator==(const Box&) const = default;
};

bool empty(const Box& box);

/// The common part, in the coordinates of the whole tensor; sizes are 0 where there is none.
Box intersection(const Box& a, const Box& b);

/// "[0:512, 1024:2048]"
std::string to_string(const Box& box);

}  // namespace tessera
