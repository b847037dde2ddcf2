#include "checkpoint/runs.h"

#include "core/error.h"

namespace tessera::checkpoint {

Runs runs_of(const Shape& shape, const Box& box) {
  TESSERA_CHECK(box.start.size() == shape.size() && box.size.size() == shape.size(), "a box of rank {} in {}",
                box.size.size(), to_string(shape));
  for (std::size_t d = 0; d < shape.size(); ++d)
    TESSERA_CHECK(box.start[d] >= 0 && box.size[d] >= 0 && box.size[d] <= shape[d] - box.start[d], "box {} in {}",
                  to_string(box), to_string(shape));
  const auto stride = strides_of(shape);
  Runs runs;
  runs.length = 1;
  std::size_t d = shape.size();
  bool is_whole = true;
  while (d > 0 && is_whole) {
    --d;
    runs.length *= box.size[d];
    is_whole = box.size[d] == shape[d];
  }
  runs.count = runs.length > 0 ? 1 : 0;
  for (std::size_t k = 0; k < shape.size(); ++k) runs.first += box.start[k] * stride[k];
  for (std::size_t k = 0; k < d; ++k) {
    runs.outer_size.push_back(box.size[k]);
    runs.outer_stride.push_back(stride[k]);
    runs.count *= box.size[k];
  }
  runs.end = runs.first + runs.length;
  for (std::size_t k = 0; k < d; ++k) runs.end += (box.size[k] - 1) * stride[k];
  runs.gap = runs.outer_stride.empty() ? 0 : runs.outer_stride.back();
  return runs;
}

void Runs::for_each(const std::function<void(std::int64_t)>& call) const {
  Shape index(outer_size.size(), 0);
  auto at = first;
  for (std::int64_t k = 0; k < count; ++k) {
    call(at);
    for (auto d = index.size(); d-- > 0;) {
      at += outer_stride[d];
      if (++index[d] < outer_size[d]) break;
      at -= outer_stride[d] * outer_size[d];
      index[d] = 0;
    }
  }
}

}  // namespace tessera::checkpoint
