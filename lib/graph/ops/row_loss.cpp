// Losses that are a mean over the last dimension c of a function of one element: mse, mae, huber, binary cross-entropy.
//   pred (rows..., c), target (rows..., c) -> l (rows...). c is a reduce factor: a split c gives partial sums.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

OpTraits traits(const Attributes&, std::span<const TensorInfo> operands) {
  const auto rows = leading(operands[0].shape.size() - 1);
  auto t = traits_of(rows + "z," + rows + "z->" + rows, operands);
  t.saves = {{0, {0}}, {1, {0}}};
  return t;
}

Attributes kernel_attributes(const Emit& e) {
  auto attributes = e.node().attributes;
  attributes.set("denominator", e.node().traits.rule.sizes.at('z'));
  return attributes;
}

void forward(Emit& e) { e.kernel("row_loss", {e.input(0), e.input(1)}, {e.result()}, kernel_attributes(e)); }

void backward(Emit& e) {
  TESSERA_CHECK(!e.needs(1), "{}: the targets are trained", e.node().name);
  write_cotangent(e, 0, [&](Value dpred) {
    e.kernel("row_loss_backward", {e.input(0), e.input(1), e.cotangent()}, {dpred}, kernel_attributes(e));
  });
}

}  // namespace

const Op kRowLoss{"row_loss", traits, forward, backward};

}  // namespace tessera::graph
