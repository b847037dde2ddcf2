// Keras Dense: activation(x . kernel + bias).  x (..., in) -> (..., units); kernel (in, units), bias (units).
#include "layers/layer.h"

namespace tessera::layers {
namespace {

struct DenseConfig : LayerConfig {
  std::int64_t units = 0;
  std::optional<config::Constructor> activation;
  bool use_bias = true;
  config::Constructor kernel_initializer, bias_initializer;
};

Tensor dense(Builder& b, const DenseConfig& c, Tensor x) {
  if (x.rank() < 2) b.fail("its input must have at least 2 dimensions, found {}", to_string(x.shape()));
  const auto in = x.shape().back();
  auto y = b.matmul(x, b.variable("kernel", {in, c.units}, c.kernel_initializer));
  if (c.use_bias) y = b.add_bias(y, b.variable("bias", {c.units}, c.bias_initializer));
  return b.activation(y, c.activation);
}

}  // namespace

void add_dense(LayerRegistry& r) {
  using config::field;
  using C = DenseConfig;
  r.add(
      "Dense", dense,
      {field("units", &C::units, config::positive),                            //
       field("activation", &C::activation, std::nullopt),                      //
       field("use_bias", &C::use_bias, true),                                  //
       field("kernel_initializer", &C::kernel_initializer, "glorot_uniform"),  //
       field("bias_initializer", &C::bias_initializer, "zeros"),               //
       unsupported<C>("kernel_regularizer"), unsupported<C>("bias_regularizer"), unsupported<C>("activity_regularizer"),
       unsupported<C>("kernel_constraint"), unsupported<C>("bias_constraint"), unsupported<C>("lora_rank")});
}

}  // namespace tessera::layers
