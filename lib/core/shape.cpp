#include "core/shape.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tessera {

std::int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string to_string(const Shape& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

bool empty(const Box& box) {
  return std::any_of(box.size.begin(), box.size.end(), [](std::int64_t n) { return n == 0; });
}

Box intersection(const Box& a, const Box& b) {
  Box out{a.start, a.size};
  for (std::size_t d = 0; d < a.start.size(); ++d) {
    const auto start = std::max(a.start[d], b.start[d]);
    const auto stop = std::min(a.start[d] + a.size[d], b.start[d] + b.size[d]);
    out.start[d] = start;
    out.size[d] = std::max<std::int64_t>(0, stop - start);
  }
  return out;
}

std::string to_string(const Box& box) {
  std::vector<std::string> parts;
  for (std::size_t d = 0; d < box.start.size(); ++d)
    parts.push_back(fmt::format("{}:{}", box.start[d], box.start[d] + box.size[d]));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace tessera
