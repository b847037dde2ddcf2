// Keras Add: the sum of its inputs; dimensions of size 1 are repeated.
#include "layers/layer.h"

namespace tessera::layers {
namespace {

struct AddConfig : LayerConfig {};

Tensor add(Builder& b, const AddConfig&, const std::vector<Tensor>& inputs) {
  if (inputs.size() < 2) b.fail("it takes at least two inputs, found {}", inputs.size());
  const auto& first = inputs[0].shape();
  std::vector<Tensor> terms;
  for (const auto& input : inputs) {
    const auto& shape = input.shape();
    bool fits = shape.size() == first.size() && shape[0] == first[0];
    for (std::size_t d = 1; fits && d < shape.size(); ++d)
      fits = shape[d] == first[d] || shape[d] == 1 || first[d] == 1;
    if (!fits) b.fail("its inputs {} and {} can't be added", to_string(first), to_string(shape));
    terms.push_back(b.cast(input, DType::kF32));
  }
  return b.add(terms);
}

}  // namespace

void add_add(LayerRegistry& r) { r.add("Add", add, {}); }

}  // namespace tessera::layers
