// Keras Dropout: in training an element is 0 with probability `rate`, else x / (1 - rate).
#include "layers/layer.h"

namespace tessera::layers {
namespace {

struct DropoutConfig : LayerConfig {
  double rate = 0;
  std::optional<std::int64_t> seed;
};

Tensor dropout(Builder& b, const DropoutConfig& c, Tensor x) {
  return b.dropout(b.cast(x, DType::kF32), c.rate, c.seed);
}

}  // namespace

void add_dropout(LayerRegistry& r) {
  using config::field;
  using C = DropoutConfig;
  r.add(
      "Dropout", dropout,
      {field("rate", &C::rate, config::in_0_1), field("seed", &C::seed, std::nullopt), unsupported<C>("noise_shape")});
}

}  // namespace tessera::layers
