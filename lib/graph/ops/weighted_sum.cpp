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

void sum_backward(Emit& e) {
  const auto o = operands_of(e.node().attributes);
  std::vector<Value> inputs{e.cotangent()};
  if (o.weights > 0) inputs.push_back(e.input(o.weights));
  if (o.denominator > 0) inputs.push_back(e.input(o.denominator));
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

}  // namespace

const Op kWeightedSum{"weighted_sum", sum_traits, emit_forward, sum_backward};
const Op kCountValid{"count_valid", scalar_traits, emit_forward, nullptr};
const Op kSumWeights{"sum_weights", scalar_traits, emit_forward, nullptr};

}  // namespace tessera::graph
