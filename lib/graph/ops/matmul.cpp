// y = x w.   x (..., k), w (k, n) -> y (..., n);   dx = dy w^T, dw = x^T dy over all leading dimensions.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

OpTraits traits(const Attributes&, std::span<const TensorInfo> operands) {
  const auto rows = leading(operands[0].shape.size() - 1);
  auto t = traits_of(rows + "k,kn->" + rows + "n", operands);
  t.saves = {{0, {1}}, {1, {0}}};
  t.linear = {{0}, {1}};
  t.matmul = true;
  t.passes = true;
  return t;
}

void backward(Emit& e) {
  if (e.needs(0))
    e.kernel("matmul", {e.cotangent(), e.input(1)}, {e.cotangent_of(0)},
             {{"transpose_b", true}, {"accumulate", e.accumulate(0)}});
  if (e.needs(1))
    e.kernel("matmul", {e.input(0), e.cotangent()}, {e.cotangent_of(1)},
             {{"transpose_a", true}, {"accumulate", e.accumulate(1)}});
}

}  // namespace

const Op kMatmul{"matmul", traits, emit_forward, backward};

}  // namespace tessera::graph
