// Keras Concatenate: its inputs one after the other along `axis`.
#include "layers/layer.h"

namespace tessera::layers {
namespace {

struct ConcatenateConfig : LayerConfig {
  std::int64_t axis = -1;
};

Tensor concatenate(Builder& b, const ConcatenateConfig& c, const std::vector<Tensor>& inputs) {
  if (inputs.size() < 2) b.fail("it takes at least two inputs, found {}", inputs.size());
  const auto& first = inputs[0].shape();
  const auto rank = static_cast<std::int64_t>(first.size());
  const auto axis = c.axis < 0 ? c.axis + rank : c.axis;
  if (axis < 1 || axis >= rank)
    b.fail("axis {} of inputs with {} dimensions: it must name one of them, and not the batch", c.axis, rank);
  std::vector<Tensor> parts;
  for (const auto& input : inputs) {
    auto shape = input.shape();
    if (shape.size() == first.size()) shape[static_cast<std::size_t>(axis)] = first[static_cast<std::size_t>(axis)];
    if (shape != first)
      b.fail("its inputs {} and {} differ beside axis {}", to_string(first), to_string(input.shape()), axis);
    parts.push_back(b.cast(input, DType::kF32));
  }
  return b.concat(parts, static_cast<std::size_t>(axis));
}

}  // namespace

void add_concatenate(LayerRegistry& r) {
  r.add("Concatenate", concatenate, {config::field("axis", &ConcatenateConfig::axis, -1)});
}

}  // namespace tessera::layers
