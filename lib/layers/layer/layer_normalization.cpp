// Keras LayerNormalization: (x - mean) / sqrt(var + epsilon) * gamma + beta over the last dimensions.
#include <algorithm>

#include "graph/ops/ops.h"
#include "layers/layer.h"

namespace tessera::layers {
namespace {

struct LayerNormalizationConfig : LayerConfig {
  std::vector<std::int64_t> axis;
  double epsilon = 1e-3;
  bool center = true, scale = true;
  config::Constructor beta_initializer, gamma_initializer;
};

/// The axes must be the last ones. Returns how many.
std::size_t trailing_axes(const Builder& b, std::vector<std::int64_t> axes, std::size_t rank) {
  for (auto& axis : axes)
    if (axis < 0) axis += static_cast<std::int64_t>(rank);
  std::ranges::sort(axes);
  const auto first = static_cast<std::int64_t>(rank) - static_cast<std::int64_t>(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != first + static_cast<std::int64_t>(i) || axes[i] < 1)
      b.fail("axis {} of an input with {} dimensions: only the last dimensions can be normalised, and not the batch",
             to_string(axes), rank);
  return axes.size();
}

Tensor layer_normalization(Builder& b, const LayerNormalizationConfig& c, Tensor x) {
  const auto axes = trailing_axes(b, c.axis, x.rank());
  const Shape shape(x.shape().end() - static_cast<std::ptrdiff_t>(axes), x.shape().end());
  std::vector<Tensor> operands{b.cast(x, DType::kF32)};
  if (c.scale) operands.push_back(b.variable("gamma", shape, c.gamma_initializer));
  if (c.center) operands.push_back(b.variable("beta", shape, c.beta_initializer));
  return b.op(
      graph::kLayerNorm, "layer_norm", operands,
      {{"axes", static_cast<std::int64_t>(axes)}, {"epsilon", c.epsilon}, {"scale", c.scale}, {"center", c.center}});
}

}  // namespace

void add_layer_normalization(LayerRegistry& r) {
  using config::field;
  using C = LayerNormalizationConfig;
  r.add("LayerNormalization", layer_normalization,
        {field("axis", &C::axis, std::vector<std::int64_t>{-1}),     //
         field("epsilon", &C::epsilon, 1e-3, config::positive),      //
         field("center", &C::center, true),                          //
         field("scale", &C::scale, true),                            //
         field("beta_initializer", &C::beta_initializer, "zeros"),   //
         field("gamma_initializer", &C::gamma_initializer, "ones"),  //
         unsupported<C>("beta_regularizer"), unsupported<C>("gamma_regularizer"), unsupported<C>("beta_constraint"),
         unsupported<C>("gamma_constraint"), unsupported<C>("rms_scaling", "false")});
}

}  // namespace tessera::layers
