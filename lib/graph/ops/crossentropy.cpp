// Cross-entropies over the last dimension v, one loss a row.
//   categorical: pred (rows..., v), target (rows..., v);  v whole
//   sparse:      pred (rows..., v), labels i32 (rows...);  from logits v may be split: max, then one packed sum of the
//                exponentials and of the label's logit. Saved: lse (rows...), the log of the sum.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

std::string rows_of(std::span<const TensorInfo> operands) { return leading(operands[0].shape.size() - 1); }

OpTraits categorical_traits(const Attributes&, std::span<const TensorInfo> operands) {
  const auto rows = rows_of(operands);
  auto t = traits_of(rows + "v," + rows + "v->" + rows + "; v whole", operands);
  t.saves = {{0, {0}}, {1, {0}}};
  return t;
}

void categorical_backward(Emit& e) {
  TESSERA_CHECK(!e.needs(1), "{}: the targets are trained", e.node().name);
  write_cotangent(e, 0, [&](Value dpred) {
    e.kernel("categorical_crossentropy_backward", {e.input(0), e.input(1), e.cotangent()}, {dpred},
             e.node().attributes);
  });
}

OpTraits sparse_traits(const Attributes& attributes, std::span<const TensorInfo> operands) {
  TESSERA_CHECK(operands[1].dtype == DType::kI32, "labels are {}", to_string(operands[1].dtype));
  const auto rows = rows_of(operands);
  const bool logits = attributes.get<bool>("from_logits");
  auto t = traits_of(rows + "v," + rows + "->" + rows + (logits ? "; v composite" : "; v whole"), operands);
  t.saves = {{0, {0}}, {1, {0}}};
  if (logits) t.inner = {{false, ReduceKind::kMax, "v", rows, 1}, {false, ReduceKind::kSum, "v", rows, 2}};
  return t;
}

Attributes ignored_class(const Emit& e) {
  Attributes attributes;
  if (e.node().attributes.has("ignore_class"))
    attributes.set("ignore_class", e.node().attributes.get<std::int64_t>("ignore_class"));
  return attributes;
}

void sparse_forward(Emit& e) {
  const auto rows = joined(e.node().traits.rule.result);
  const Value lse = e.temp("lse", rows, DType::kF32);
  if (e.split("v")) {
    const Value max = e.temp("max", rows, DType::kF32);
    const Value sums = e.temp("sums", rows, DType::kF32, {2});
    e.kernel("row_max", {e.input(0)}, {max});
    e.all_reduce(max, "v", ReduceKind::kMax);
    e.kernel("row_sum_exp_picked", {e.input(0), max, e.input(1)}, {sums}, ignored_class(e));
    e.all_reduce(sums, "v", ReduceKind::kSum);
    e.kernel("sparse_crossentropy_finish", {max, sums, e.input(1)}, {e.result(), lse}, ignored_class(e));
  } else {
    e.kernel("sparse_crossentropy", {e.input(0), e.input(1)}, {e.result(), lse}, e.node().attributes);
  }
  e.save("lse", lse);
}

void sparse_backward(Emit& e) {
  write_cotangent(e, 0, [&](Value dpred) {
    e.kernel("sparse_crossentropy_backward", {e.input(0), e.input(1), e.saved("lse"), e.cotangent()}, {dpred},
             e.node().attributes);
  });
}

}  // namespace

const Op kCategoricalCrossentropy{"categorical_crossentropy", categorical_traits, emit_forward, categorical_backward};
const Op kSparseCrossentropy{"sparse_crossentropy", sparse_traits, sparse_forward, sparse_backward};

}  // namespace tessera::graph
