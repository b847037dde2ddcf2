// Keras Rescaling: scale x + offset; integers become float32.
#include "layers/layer.h"

namespace tessera::layers {
namespace {

struct RescalingConfig : LayerConfig {
  double scale = 1, offset = 0;
};

Tensor rescaling(Builder& b, const RescalingConfig& c, Tensor x) { return b.affine(x, c.scale, c.offset); }

}  // namespace

void add_rescaling(LayerRegistry& r) {
  r.add("Rescaling", rescaling,
        {config::field("scale", &RescalingConfig::scale), config::field("offset", &RescalingConfig::offset, 0.0)});
}

}  // namespace tessera::layers
