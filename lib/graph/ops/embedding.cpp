// y = table[ids].   table (v, d), ids i32 (rows...) -> (rows..., d). A rank that has a part of v gives zeros for other
// ids: v is a reduce factor, and the sum over its axes may become a reduce-scatter.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

OpTraits traits(const Attributes&, std::span<const TensorInfo> operands) {
  TESSERA_CHECK(operands[1].dtype == DType::kI32, "ids are {}", to_string(operands[1].dtype));
  const auto rows = leading(operands[1].shape.size());
  auto t = traits_of("vz," + rows + "->" + rows + "z", operands);
  t.saves = {{1, {0}}};
  return t;
}

void backward(Emit& e) {
  e.kernel("embedding_backward", {e.input(1), e.cotangent()}, {e.cotangent_of(0)}, {{"accumulate", e.accumulate(0)}});
}

}  // namespace

const Op kEmbedding{"embedding", traits, emit_forward, backward};

}  // namespace tessera::graph
