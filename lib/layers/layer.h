#pragma once

#include <functional>
#include <type_traits>

#include "config/spec.h"
#include "layers/builder.h"
#include "layers/registry.h"

namespace tessera::layers {

/// Arguments that all layers take.
struct LayerConfig {
  bool trainable = true;
};
const std::vector<config::Field<LayerConfig>>& common_layer_fields();

struct LayerClass {
  std::string name;
  std::vector<std::string> aliases;
  std::vector<config::FieldDoc> fields;
  /// Applies the layer `index` times before now; throws Error (config) with its place.
  std::function<Tensor(Builder&, const config::LayerSpec&, int index, const std::vector<Tensor>&)> apply;
};

class LayerRegistry : public Registry<LayerClass> {
 public:
  LayerRegistry() : Registry("layer") {}

  /// `function` is Tensor(Builder&, const Config&, Tensor) for a layer of one input, or takes a vector of them.
  template <typename Config, typename Input>
  void add(const std::string& name, Tensor (*function)(Builder&, const Config&, Input),
           std::vector<config::Field<Config>> own) {
    static_assert(std::is_base_of_v<LayerConfig, Config>);
    const config::Fields<Config> fields(name, with_base(common_layer_fields(), std::move(own)));
    insert(
        {name,
         {},
         fields.docs(),
         [fields, function](Builder& b, const config::LayerSpec& spec, int index, const std::vector<Tensor>& inputs) {
           const auto config = fields.read(spec.arguments, spec.pos, {"name", "inputs", "call"});
           b.begin({spec.type, spec.name, index, config.trainable, spec.pos});
           refuse_call_arguments(spec);
           if constexpr (std::is_same_v<Input, Tensor>)
             return function(b, config, single(b, inputs));
           else
             return function(b, config, inputs);
         }});
  }

 private:
  static void refuse_call_arguments(const config::LayerSpec& spec);
  static Tensor single(const Builder& b, const std::vector<Tensor>& inputs);
};

const LayerRegistry& layer_registry();

}  // namespace tessera::layers
