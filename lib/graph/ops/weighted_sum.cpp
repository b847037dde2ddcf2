// The loss of a step: sum over the real rows of l w / denominator, and the denominators. All reduce over the batch and
// take the row mask. A denominator reads inputs only, so it is the whole batch's before the first micro-batch runs.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

struct Operands {
  int weights = -1, denominator = -1;
};

Operands operands_of(const Attributes& attributes) {
  Operands o;
  int next = 1;
  if (attributes.get<bool>("weights")) o.weights = next++;
  if (attributes.get<std::string>("denominator") == "input") o.denominator = next++;
  return o;
}

OpTraits sum_traits(const Attributes& attributes, std::span<const TensorInfo> operands) {
  const auto o = operands_of(attributes);
  const auto rows = leading(operands[0].shape.size());
  auto t = traits_of(rows + (o.weights > 0 ? "," + rows : "") + (o.denominator > 0 ? "," : "") + "->", operands);
  t.linear = {{0}};
  if (o.weights > 0) t.saves[o.weights] = {0};
  if (o.denominator > 0) t.saves[o.denominator] = {0};
  t.masks_rows = true;
  return t;
}

void read(Emit& e, std::vector<Value>& inputs) {
  const auto o = operands_of(e.node().attributes);
  if (o.weights > 0) inputs.push_back(e.input(o.weights));
  if (o.denominator > 0) inputs.push_back(e.input(o.denominator));
}

void sum_forward(Emit& e) {
  std::vector<Value> inputs{e.input(0)};
  read(e, inputs);
  e.kernel("weighted_sum", inputs, {e.result()}, e.node().attributes);
}

void sum_backward(Emit& e) {
  std::vector<Value> inputs{e.cotangent()};
  read(e, inputs);
  write_cotangent(e, 0, [&](Value dl) { e.kernel("weighted_sum_backward", inputs, {dl}, e.node().attributes); });
}

/// All operands have one shape.
OpTraits scalar_traits(const Attributes&, std::span<const TensorInfo> operands) {
  const auto rows = leading(operands[0].shape.size());
  auto t = traits_of(rows + (operands.size() > 1 ? "," + rows : "") + "->", operands);
  t.dtype = DType::kF64;
  t.masks_rows = true;
  return t;
}

void scalar_forward(Emit& e) {
  std::vector<Value> inputs{e.input(0)};
  if (e.node().args.size() > 1) inputs.push_back(e.input(1));
  e.kernel(std::string(e.node().op->name), inputs, {e.result()}, e.node().attributes);
}

}  // namespace

const Op kWeightedSum{"weighted_sum", sum_traits, sum_forward, sum_backward};
const Op kCountValid{"count_valid", scalar_traits, scalar_forward, nullptr};
const Op kSumWeights{"sum_weights", scalar_traits, scalar_forward, nullptr};

}  // namespace tessera::graph
