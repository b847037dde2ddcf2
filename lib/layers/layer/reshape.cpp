// Keras Reshape: (batch, ...) -> (batch, target_shape...). One size may be -1: it is what is left.
#include <algorithm>

#include "layers/layer.h"

namespace tessera::layers {
namespace {

struct ReshapeConfig : LayerConfig {
  std::vector<std::int64_t> target_shape;
};

Tensor reshape(Builder& b, const ReshapeConfig& c, Tensor x) {
  const auto target = c.target_shape;
  const Shape sample(x.shape().begin() + 1, x.shape().end());
  const auto open = std::ranges::count(target, -1);
  const bool sizes = std::ranges::all_of(target, [](auto n) { return n > 0 || n == -1; });
  if (!sizes || open > 1) b.fail("target_shape {} must have positive sizes and at most one -1", to_string(target));
  const auto total = elements(sample);
  std::int64_t known = 1;  // at most total
  const bool fits = std::ranges::all_of(target, [&](auto n) {
    const bool room = n <= total / known;
    if (room && n > 0) known *= n;
    return room;
  });
  if (!fits || (open == 1 ? total % known != 0 : total != known))
    b.fail("its input has samples of the shape {} ({} elements), which target_shape {} can't hold", to_string(sample),
           total, to_string(target));
  Shape shape{x.shape()[0]};
  for (const auto n : target) shape.push_back(n > 0 ? n : total / known);
  return b.reshape(x, shape);
}

}  // namespace

void add_reshape(LayerRegistry& r) {
  r.add("Reshape", reshape, {config::field("target_shape", &ReshapeConfig::target_shape)});
}

}  // namespace tessera::layers
