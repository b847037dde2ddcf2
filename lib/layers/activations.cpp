#include "layers/activations.h"

#include <array>
#include <string_view>

#include "config/fields.h"
#include "graph/ops/ops.h"
#include "layers/registry.h"

namespace tessera::layers {
namespace {

/// Functions of one element. `argument`: Keras's name of the constant, "" if there is none.
struct Unary {
  std::string_view name, function, argument;
  double fallback = 0;
};

constexpr std::array kUnary{
    Unary{"relu", "relu", ""},
    Unary{"relu6", "relu6", ""},
    Unary{"leaky_relu", "leaky_relu", "negative_slope", 0.2},
    Unary{"elu", "elu", "alpha", 1.0},
    Unary{"selu", "selu", ""},
    Unary{"celu", "celu", "alpha", 1.0},
    Unary{"silu", "silu", ""},
    Unary{"swish", "silu", ""},
    Unary{"sigmoid", "sigmoid", ""},
    Unary{"hard_sigmoid", "hard_sigmoid", ""},
    Unary{"hard_silu", "hard_silu", ""},
    Unary{"hard_swish", "hard_silu", ""},
    Unary{"tanh", "tanh", ""},
    Unary{"softplus", "softplus", ""},
    Unary{"softsign", "softsign", ""},
    Unary{"mish", "mish", ""},
    Unary{"exponential", "exponential", ""},
};

struct GeluConfig {
  bool approximate = false;
};
struct SoftmaxConfig {
  std::int64_t axis = -1;
};
struct ConstantConfig {
  double value = 0;
};

config::Fields<GeluConfig> gelu_fields() {
  return {"gelu", {config::field("approximate", &GeluConfig::approximate, false)}};
}

config::Fields<SoftmaxConfig> softmax_fields(const std::string& name) {
  return {name, {config::field("axis", &SoftmaxConfig::axis, -1)}};
}

config::Fields<ConstantConfig> unary_fields(const Unary& f) {
  std::vector<config::Field<ConstantConfig>> own;
  if (!f.argument.empty()) own.push_back(config::field(std::string(f.argument), &ConstantConfig::value, f.fallback));
  return {std::string(f.name), std::move(own)};
}

Tensor gelu(Builder& b, const config::Constructor& c, Tensor x) {
  const std::string function = gelu_fields().read(c.arguments, c.pos).approximate ? "gelu_tanh" : "gelu";
  return b.op(graph::kUnary, function, {x}, {{"function", function}});
}

Tensor softmax(Builder& b, const config::Constructor& c, Tensor x) {
  const auto axis = softmax_fields(c.name).read(c.arguments, c.pos).axis;
  const auto last = static_cast<std::int64_t>(x.rank()) - 1;
  if (axis != -1 && axis != last)
    fail_at(c.pos, ExitCode::kConfig, "{} over axis {} is not supported, only over the last one", c.name, axis);
  if (last < 1) b.fail("{} needs a dimension beside the batch, found {}", c.name, to_string(x.shape()));
  return b.op(graph::kSoftmax, c.name, {x}, {{"log", c.name == "log_softmax"}});
}

Tensor unary(Builder& b, const config::Constructor& c, const Unary& f, Tensor x) {
  const std::string function(f.function);
  Attributes attributes{{"function", function}};
  const auto config = unary_fields(f).read(c.arguments, c.pos);
  if (!f.argument.empty()) attributes.set("parameter", config.value);
  return b.op(graph::kUnary, function, {x}, attributes);
}

}  // namespace

std::vector<std::string> activation_names() {
  std::vector<std::string> names{"linear", "gelu", "softmax", "log_softmax"};
  for (const auto& f : kUnary) names.emplace_back(f.name);
  return names;
}

std::vector<std::pair<std::string, std::vector<config::FieldDoc>>> activation_docs() {
  std::vector<std::pair<std::string, std::vector<config::FieldDoc>>> docs{{"linear", {}},
                                                                          {"gelu", gelu_fields().docs()}};
  for (const auto* name : {"softmax", "log_softmax"}) docs.emplace_back(name, softmax_fields(name).docs());
  for (const auto& f : kUnary) docs.emplace_back(f.name, unary_fields(f).docs());
  return docs;
}

Tensor apply_activation(Builder& b, Tensor x, const std::optional<config::Constructor>& activation) {
  x = b.cast(x, DType::kF32);
  if (!activation) return x;
  const auto& c = *activation;
  if (c.name == "linear") {
    if (!c.arguments.is_null()) config::require_keys(c.arguments, {}, "linear");
    return x;
  }
  if (c.name == "gelu") return gelu(b, c, x);
  if (c.name == "softmax" || c.name == "log_softmax") return softmax(b, c, x);
  for (const auto& f : kUnary)
    if (c.name == f.name) return unary(b, c, f, x);
  const auto names = activation_names();
  fail_at(c.pos, ExitCode::kConfig, "there is no activation '{}'{}", c.name, known_names(c.name, names, names));
}

}  // namespace tessera::layers
