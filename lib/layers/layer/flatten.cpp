// Keras Flatten: (batch, ...) -> (batch, product of the rest).
#include "layers/layer.h"

namespace tessera::layers {
namespace {

struct FlattenConfig : LayerConfig {};

Tensor flatten(Builder& b, const FlattenConfig&, Tensor x) {
  const auto rows = x.shape()[0];
  return b.reshape(x, {rows, elements({x.shape().begin() + 1, x.shape().end()})});
}

}  // namespace

void add_flatten(LayerRegistry& r) {
  r.add("Flatten", flatten, {unsupported<FlattenConfig>("data_format", "channels_last")});
}

}  // namespace tessera::layers
