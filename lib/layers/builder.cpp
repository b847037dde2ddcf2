#include "layers/builder.h"

#include <algorithm>

#include "core/philox.h"
#include "core/placed.h"
#include "graph/ops/ops.h"
#include "layers/activations.h"
#include "layers/initializers.h"

namespace tessera::layers {
namespace {

/// The largest tensor, whole: sums of their bytes over all tensors of a model stay below 2^63.
constexpr std::int64_t kMostElements = std::int64_t{1} << 44;

bool is_too_large(const Shape& shape) {
  std::int64_t left = kMostElements;
  for (const auto size : shape) left /= std::max<std::int64_t>(size, 1);
  return left == 0;
}

}  // namespace

void Builder::check_shape(const std::string& name, const Shape& shape) const {
  if (shape.size() > graph::kMostDimensions)
    fail("{} {} has {} dimensions; at most {} are supported", name, to_string(shape), shape.size(),
         graph::kMostDimensions);
  if (is_too_large(shape)) fail("{} {} has more than 2^44 elements", name, to_string(shape));
}

Tensor Builder::input(const std::string& name, const Shape& shape, DType dtype) {
  check_shape(name, shape);
  return {graph_, graph_.add_input(name, shape, dtype, 0)};
}

Tensor Builder::variable(const std::string& name, const Shape& shape, const config::Constructor& initializer,
                         DType dtype) {
  const auto path = layer_.path + "/" + name;
  if (const int known = graph_.find(path); known >= 0) {
    if (graph_.node(known).shape() != shape)
      fail("{} has the shape {}, but this input needs {}", path, to_string(graph_.node(known).shape()),
           to_string(shape));
    return {graph_, known};
  }
  check_shape(path, shape);
  graph::Variable variable;
  variable.path = path;
  variable.initializer = make_initializer(initializer, shape, seed_, path);
  variable.trainable = layer_.trainable;
  variable.pos = layer_.pos;
  return {graph_, graph_.add_variable(std::move(variable), shape, dtype)};
}

Tensor Builder::matmul(Tensor x, Tensor kernel) { return op(graph::kMatmul, "matmul", {cast(x, DType::kF32), kernel}); }

Tensor Builder::add_bias(Tensor x, Tensor bias) { return op(graph::kBiasAdd, "bias_add", {x, bias}); }

Tensor Builder::activation(Tensor x, const std::optional<config::Constructor>& activation) {
  return apply_activation(*this, x, activation);
}

Tensor Builder::add(const std::vector<Tensor>& terms) { return op(graph::kAdd, "add", terms); }

Tensor Builder::concat(const std::vector<Tensor>& parts, std::size_t dim) {
  return op(graph::kConcat, "concat", parts, {{"dim", static_cast<std::int64_t>(dim)}});
}

Tensor Builder::reshape(Tensor x, const Shape& shape) {
  return x.shape() == shape ? x : op(graph::kReshape, "reshape", {x}, {{"shape", shape}});
}

Tensor Builder::affine(Tensor x, double scale, double offset) {
  return op(graph::kAffine, "affine", {cast(x, DType::kF32)}, {{"scale", scale}, {"offset", offset}});
}

Tensor Builder::cast(Tensor x, DType dtype) {
  return x.dtype() == dtype ? x : op(graph::kCast, "cast", {x}, {{"dtype", to_string(dtype)}});
}

Tensor Builder::dropout(Tensor x, double rate, std::optional<std::int64_t> seed) {
  if (!training_ || rate == 0) return x;
  const auto key = philox_key(seed ? static_cast<std::uint64_t>(*seed) : seed_, "dropout", layer_.name());
  return op(graph::kDropout, "dropout", {x}, {{"rate", rate}, {"key", static_cast<std::int64_t>(key)}});
}

Tensor Builder::op(const graph::Op& op, const std::string& name, const std::vector<Tensor>& operands,
                   const Attributes& attributes, bool prologue) {
  const auto base = layer_.name() + "/" + name;
  auto unique = base;
  for (int k = 1; graph_.find(unique) >= 0; ++k) unique = fmt::format("{}_{}", base, k);
  std::vector<int> args;
  for (const auto& operand : operands) args.push_back(operand.id());
  const int id =
      placed(layer_.pos, [&] { return graph_.add_op(op, unique, layer_.name(), args, attributes, prologue); });
  graph_.mutable_node(id).pos = layer_.pos;
  check_shape(unique, graph_.node(id).shape());
  return {graph_, id};
}

}  // namespace tessera::layers
