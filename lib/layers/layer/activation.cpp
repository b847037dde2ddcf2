// Keras Activation: f(x), element by element (softmax: over the last dimension).
#include "layers/layer.h"

namespace tessera::layers {
namespace {

struct ActivationConfig : LayerConfig {
  std::optional<config::Constructor> activation;
};

Tensor activation(Builder& b, const ActivationConfig& c, Tensor x) { return b.activation(x, c.activation); }

}  // namespace

void add_activation(LayerRegistry& r) {
  r.add("Activation", activation, {config::field("activation", &ActivationConfig::activation)});
}

}  // namespace tessera::layers
