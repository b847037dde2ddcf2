// Softmax or log-softmax over the last dimension v, which may be split.
//   y = exp(x - m) / s with m = max x, s = sum exp(x - m);   dx = y (dy - sum y dy)
//   log: y = x - m - log s;                                   dx = dy - exp(y) sum dy
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

OpTraits traits(const Attributes&, std::span<const TensorInfo> operands) {
  const auto rows = leading(operands[0].shape.size() - 1);
  auto t = traits_of(rows + "v->" + rows + "v; v composite", operands);
  t.saves_result = {0};
  t.inner = {{false, ReduceKind::kMax, "v", rows, 1},
             {false, ReduceKind::kSum, "v", rows, 1},
             {true, ReduceKind::kSum, "v", rows, 1}};
  return t;
}

std::string rows_of(const Emit& e) {
  auto all = joined(e.node().traits.rule.result);
  all.pop_back();
  return all;
}

Attributes log_of(const Emit& e) { return {{"log", e.node().attributes.get<bool>("log")}}; }

void forward(Emit& e) {
  if (!e.split("v")) return e.kernel("softmax", {e.input(0)}, {e.result()}, log_of(e));
  const Value max = e.temp("max", rows_of(e), DType::kF32);
  const Value sum = e.temp("sum", rows_of(e), DType::kF32);
  e.kernel("row_max", {e.input(0)}, {max});
  e.all_reduce(max, "v", ReduceKind::kMax);
  e.kernel("row_sum_exp", {e.input(0), max}, {sum});
  e.all_reduce(sum, "v", ReduceKind::kSum);
  e.kernel("softmax_finish", {e.input(0), max, sum}, {e.result()}, log_of(e));
}

void backward(Emit& e) {
  write_cotangent(e, 0, [&](Value dx) {
    if (!e.split("v")) return e.kernel("softmax_backward", {e.result(), e.cotangent()}, {dx}, log_of(e));
    const Value dot = e.temp("dot", rows_of(e), DType::kF32);
    e.kernel("row_dot", {e.result(), e.cotangent()}, {dot}, log_of(e));
    e.all_reduce(dot, "v", ReduceKind::kSum);
    e.kernel("softmax_backward_finish", {e.result(), e.cotangent(), dot}, {dx}, log_of(e));
  });
}

}  // namespace

const Op kSoftmax{"softmax", traits, forward, backward};

}  // namespace tessera::graph
