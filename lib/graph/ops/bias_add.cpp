// y = x + bias.   x (rows..., b...), bias (b...);   dx = dy, dbias = sum of dy over the rows.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

OpTraits traits(const Attributes&, std::span<const TensorInfo> operands) {
  const auto x = leading(operands[0].shape.size());
  const auto bias = x.substr(x.size() - operands[1].shape.size());
  auto t = traits_of(x + "," + bias + "->" + x, operands);
  t.passes = true;  // the sum is affine: no partial operand, or n ranks would add the bias n times
  return t;
}

void forward(Emit& e) {
  e.kernel("elementwise", {e.input(0), e.input(1)}, {e.result()}, {{"program", std::string("add i0 i1")}});
}

void backward(Emit& e) {
  const auto& rule = e.node().traits.rule;
  write_cotangent(e, 0, [&](Value dx) { e.kernel("copy", {e.cotangent()}, {dx}); });
  if (e.needs(1))
    e.kernel("reduce_sum", {e.cotangent()}, {e.cotangent_of(1)},
             {{"dims", range(rule.operands[0].size() - rule.operands[1].size())}, {"accumulate", e.accumulate(1)}});
}

}  // namespace

const Op kBiasAdd{"bias_add", traits, forward, backward};

}  // namespace tessera::graph
