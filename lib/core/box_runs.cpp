#include "core/box_runs.h"

#include "core/error.h"

namespace tessera {

BoxRuns::BoxRuns(const Shape& shape, const Box& box) : shape_(shape), box_(box), outer_(shape.size()) {
  TESSERA_CHECK(box.start.size() == shape.size() && box.size.size() == shape.size(), "box {} of a tensor {}",
                to_string(box), to_string(shape));
  std::int64_t stride = 1;
  bool contiguous = true;
  for (auto d = shape.size(); d-- > 0;) {
    TESSERA_CHECK(box.start[d] >= 0 && box.size[d] >= 0 && box.size[d] <= shape[d] - box.start[d],
                  "box {} of a tensor {}", to_string(box), to_string(shape));
    first_ += box.start[d] * stride;
    stride *= shape[d];
    if (contiguous) {
      length_ *= box.size[d];
      stride_ = stride;
      outer_ = d;
      contiguous = box.size[d] == shape[d];
    } else {
      count_ *= box.size[d];
    }
  }
  if (length_ == 0) count_ = 0;
}

std::int64_t BoxRuns::start(std::int64_t k) const {
  auto at = first_, stride = stride_;
  for (auto d = outer_; d-- > 0; stride *= shape_[d]) {
    at += k % box_.size[d] * stride;
    k /= box_.size[d];
  }
  return at;
}

}  // namespace tessera
