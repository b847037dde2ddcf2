// What happens to a gradient before the update: squared norm, clipping, accumulation over calls.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

/// In f64, so that the norm of a large model is exact enough; a split gradient gives a partial sum.
OpTraits sum_squares_traits(const Attributes&, std::span<const TensorInfo> operands) {
  auto t = traits_of(leading(operands[0].shape.size()) + "->", operands);
  t.dtype = DType::kF64;
  return t;
}

OpTraits clip_by_norm_traits(const Attributes&, std::span<const TensorInfo> operands) {
  const auto tensor = leading(operands[0].shape.size());
  return traits_of(tensor + ",->" + tensor, operands);
}

OpTraits same_traits(const Attributes&, std::span<const TensorInfo> operands) { return elementwise_traits(operands); }

void clip_by_value_forward(Emit& e) {
  const auto limit = e.node().attributes.get<double>("limit");
  e.kernel("elementwise", {e.input(0)}, {e.result()}, {{"program", step("clip i0", -limit, limit)}});
}

/// The accumulator is written too: it starts again from 0.
void average_forward(Emit& e) {
  e.kernel("average_gradient", {e.input(0), e.input(1)}, {e.result(), e.input(0)}, e.node().attributes);
}

}  // namespace

const Op kSumSquares{"sum_squares", sum_squares_traits, emit_forward, nullptr};
const Op kClipByNorm{"clip_by_norm", clip_by_norm_traits, emit_forward, nullptr};
const Op kClipByValue{"clip_by_value", same_traits, clip_by_value_forward, nullptr};
const Op kAccumulateGradient{"accumulate_gradient", same_traits, emit_forward, nullptr};
const Op kAverageGradient{"average_gradient", same_traits, average_forward, nullptr};

}  // namespace tessera::graph
