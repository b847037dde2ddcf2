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

/// The result is the memory of the state: the kernel reads it and adds.
OpTraits accumulate_traits(const Attributes&, std::span<const TensorInfo> operands) {
  const auto rows = leading(operands[0].shape.size());
  auto t = traits_of(rows + (operands.size() > 1 ? "," + rows : "") + "->s; s whole", operands, {{'s', 2}});
  t.dtype = DType::kF64;
  t.masks_rows = true;
  return t;
}

}  // namespace

const Op kMatchRows{"match_rows", match_traits, emit_forward, nullptr};
const Op kMetricAccumulate{"metric_accumulate", accumulate_traits, emit_forward, nullptr};

}  // namespace tessera::graph
