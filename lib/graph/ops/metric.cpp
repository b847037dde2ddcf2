// Metrics: a value a row, then (sum of w v, sum of w) over the real rows, added to a state that lives until it is
// reset.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

/// Classes are compared as a whole row.
OpTraits match_traits(const Attributes& attributes, std::span<const TensorInfo> operands) {
  const auto rows = leading(operands[0].shape.size() - 1);
  const bool sparse = attributes.get<std::string>("kind") == "sparse";
  return traits_of(rows + "v," + rows + (sparse ? "" : "v") + "->" + rows + "; v whole", operands);
}

void match_forward(Emit& e) { e.kernel("match_rows", {e.input(0), e.input(1)}, {e.result()}, e.node().attributes); }

/// The last operand is the state. It is replicated to the rule and stays where it is: every rank adds its own rows.
OpTraits accumulate_traits(const Attributes&, std::span<const TensorInfo> operands) {
  const auto rows = leading(operands[0].shape.size());
  auto t = traits_of(rows + (operands.size() > 2 ? "," + rows : "") + ",s->s; s whole", operands);
  t.dtype = DType::kF64;
  t.masks_rows = true;
  return t;
}

void accumulate_forward(Emit& e) {
  const int state = static_cast<int>(e.node().args.size()) - 1;
  std::vector<Value> inputs;
  for (int k = 0; k < state; ++k) inputs.push_back(e.input(k));
  e.kernel("metric_accumulate", inputs, {e.input(state)});
}

}  // namespace

const Op kMatchRows{"match_rows", match_traits, match_forward, nullptr};
const Op kMetricAccumulate{"metric_accumulate", accumulate_traits, accumulate_forward, nullptr};

}  // namespace tessera::graph
