#include "layers/layer.h"

namespace tessera::layers {

void add_all(LayerRegistry& registry);  // written by CMake from the files in layer/

const std::vector<config::Field<LayerConfig>>& common_layer_fields() {
  static const std::vector<config::Field<LayerConfig>> kFields{
      config::field("trainable", &LayerConfig::trainable, true),
      unsupported<LayerConfig>("dtype", "float32"),
  };
  return kFields;
}

void LayerRegistry::refuse_call_arguments(const config::LayerSpec& spec) {
  for (const auto& entry : spec.call.entries)
    fail_at(entry.pos, ExitCode::kConfig, "{} '{}' takes no call argument '{}'", spec.type, spec.name, entry.key);
}

Tensor LayerRegistry::single(const Builder& b, const std::vector<Tensor>& inputs) {
  if (inputs.size() != 1) b.fail("it takes one input, found {}", inputs.size());
  return inputs[0];
}

const LayerRegistry& layer_registry() {
  static const LayerRegistry kRegistry = [] {
    LayerRegistry r;
    add_all(r);
    return r;
  }();
  return kRegistry;
}

}  // namespace tessera::layers
