// y = (x - mean) / sqrt(var + epsilon) * gamma + beta over the last `axes` dimensions.  Ba, Kiros, Hinton 2016, eq. 4.
//   x (rows..., d...), gamma (d...), beta (d...) -> y (rows..., d...); saved: mean (rows...), rstd (rows...), f32
// A split d: local sums in f64, one all-reduce, finish.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

struct Parts {
  std::string rows, d;
  int gamma = -1, beta = -1;  // operands
  std::int64_t axes = 1, cols = 1;
  double epsilon = 0;
};

Parts parts_of(const Attributes& a, const Shape& x) {
  Parts p;
  p.axes = a.get<std::int64_t>("axes");
  p.epsilon = a.get<double>("epsilon");
  const auto all = leading(x.size());
  const auto row_rank = x.size() - static_cast<std::size_t>(p.axes);
  p.rows = all.substr(0, row_rank);
  p.d = all.substr(row_rank);
  int next = 1;
  if (a.get<bool>("scale")) p.gamma = next++;
  if (a.get<bool>("center")) p.beta = next++;
  for (std::size_t i = row_rank; i < x.size(); ++i) p.cols *= x[i];
  return p;
}

OpTraits traits(const Attributes& attributes, std::span<const TensorInfo> operands) {
  const auto p = parts_of(attributes, operands[0].shape);
  auto rule = p.rows + p.d;
  for (std::size_t k = 1; k < operands.size(); ++k) rule += "," + p.d;
  auto t = traits_of(rule + "->" + p.rows + p.d + ";" + p.d + " composite", operands);
  t.saves[0] = {0};
  if (p.gamma > 0) {
    t.saves[0].push_back(p.gamma);
    t.saves[p.gamma] = {0};
  }
  // Two sums a row in f64: four words of 4 bytes.
  t.inner = {{false, ReduceKind::kSum, p.d, p.rows, 4}, {true, ReduceKind::kSum, p.d, p.rows, 4}};
  return t;
}

void forward(Emit& e) {
  const auto p = parts_of(e.node().attributes, e.node().shape());
  const Value mean = e.temp("mean", p.rows, DType::kF32);
  const Value rstd = e.temp("rstd", p.rows, DType::kF32);
  Attributes attributes{{"axes", p.axes}, {"epsilon", p.epsilon}, {"scale", p.gamma > 0}, {"center", p.beta > 0}};
  std::vector<Value> inputs{e.input(0)};
  std::string name = "layer_norm";
  if (e.split(p.d)) {
    const Value sums = e.temp("sums", p.rows, DType::kF64, {2});
    e.kernel("row_moments", {e.input(0)}, {sums}, {{"axes", p.axes}});
    e.all_reduce(sums, p.d, ReduceKind::kSum);
    inputs.push_back(sums);
    attributes.set("cols", p.cols);
    name = "layer_norm_finish";
  }
  if (p.gamma > 0) inputs.push_back(e.input(p.gamma));
  if (p.beta > 0) inputs.push_back(e.input(p.beta));
  e.kernel(name, inputs, {e.result(), mean, rstd}, attributes);
  e.save("mean", mean);
  e.save("rstd", rstd);
}

void backward(Emit& e) {
  const auto p = parts_of(e.node().attributes, e.node().shape());
  std::string needs;
  std::vector<Value> outputs;
  bool accumulate = false;
  const auto want = [&](int k, char letter) {
    if (k < 0 || !e.needs(k)) return;
    needs += letter;
    outputs.push_back(e.cotangent_of(k));
    accumulate = accumulate || (k > 0 && e.accumulate(k));
  };
  const bool by_term = e.needs(0) && e.accumulate(0);  // the kernel accumulates only dgamma and dbeta
  Value term;
  if (by_term) {
    needs += 'x';
    outputs.push_back(term = e.temp("cotangent_0", p.rows + p.d, DType::kF32));
  } else {
    want(0, 'x');
  }
  want(p.gamma, 'g');
  want(p.beta, 'b');

  const bool scale = p.gamma > 0;
  Attributes attributes{
      {"axes", p.axes}, {"scale", scale}, {"center", p.beta > 0}, {"needs", needs}, {"accumulate", accumulate}};
  std::vector<Value> inputs{e.cotangent(), e.input(0), e.saved("mean"), e.saved("rstd")};
  std::string name = "layer_norm_backward";
  if (e.split(p.d) && e.needs(0)) {
    const Value sums = e.temp("backward_sums", p.rows, DType::kF64, {2});
    auto local = inputs;
    if (scale) local.push_back(e.input(p.gamma));
    e.kernel("layer_norm_backward_sums", local, {sums}, {{"axes", p.axes}, {"scale", scale}});
    e.all_reduce(sums, p.d, ReduceKind::kSum);
    inputs.push_back(sums);
    attributes.set("cols", p.cols);
    name = "layer_norm_backward_finish";
  }
  if (scale && e.needs(0))
    inputs.push_back(e.input(p.gamma));
  else
    attributes.set("scale", false);
  e.kernel(name, inputs, outputs, attributes);
  if (by_term)
    e.kernel("reduce_sum", {term}, {e.cotangent_of(0)}, {{"dims", std::vector<std::int64_t>{}}, {"accumulate", true}});
}

}  // namespace

const Op kLayerNorm{"layer_norm", traits, forward, backward};

}  // namespace tessera::graph
