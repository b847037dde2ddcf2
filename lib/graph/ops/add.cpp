// y = x0 + x1 + ..., shapes broadcast as numpy's;   dxk = dy, summed over the dimensions in which xk was repeated.
#include <algorithm>

#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

/// A repeated dimension of size 1 gets a letter of its own (i, j, ...), which is never split.
OpTraits traits(const Attributes&, std::span<const TensorInfo> operands) {
  std::size_t rank = 0;
  for (const auto& operand : operands) rank = std::max(rank, operand.shape.size());
  Shape sum(rank, 1);
  for (const auto& operand : operands)
    for (std::size_t d = 0; d < operand.shape.size(); ++d) {
      auto& size = sum[rank - operand.shape.size() + d];
      size = std::max(size, operand.shape[d]);
    }

  const auto result = leading(rank);
  std::map<char, std::int64_t> sizes;
  for (std::size_t d = 0; d < rank; ++d) sizes[result[d]] = sum[d];
  std::string rule;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const auto& shape = operands[k].shape;
    auto tensor = result.substr(rank - shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] != sum[rank - shape.size() + d]) tensor[d] = static_cast<char>('i' + rank - shape.size() + d);
    rule += (k > 0 ? "," : "") + tensor;
  }
  auto t = traits_of(rule + "->" + result, operands, sizes);
  t.dtype = operands[0].dtype;
  t.linear.resize(1);
  for (std::size_t k = 0; k < operands.size(); ++k) t.linear[0].push_back(static_cast<int>(k));
  t.is_sum = true;
  return t;
}

void forward(Emit& e) {
  const auto& rule = e.node().traits.rule;
  std::vector<Value> terms;
  for (std::size_t k = 0; k < rule.operands.size(); ++k) {
    terms.push_back(e.input(static_cast<int>(k)));
    if (rule.operands[k] == rule.result) continue;
    const Value repeated = e.temp(fmt::format("repeated_{}", k), joined(rule.result), e.node().dtype());
    e.kernel("broadcast_to", {terms.back()}, {repeated});
    terms.back() = repeated;
  }
  e.kernel("add_n", terms, {e.result()});
}

void backward(Emit& e) {
  const auto& rule = e.node().traits.rule;
  for (std::size_t k = 0; k < rule.operands.size(); ++k) {
    const int operand = static_cast<int>(k);
    if (!e.needs(operand)) continue;
    const auto& factors = rule.operands[k];
    const auto missing = rule.result.size() - factors.size();
    std::vector<std::int64_t> dims = range(missing);
    for (std::size_t d = 0; d < factors.size(); ++d)
      if (factors[d] != rule.result[missing + d]) dims.push_back(static_cast<std::int64_t>(missing + d));
    if (dims.empty() && !e.accumulate(operand))
      e.kernel("copy", {e.cotangent()}, {e.cotangent_of(operand)});
    else
      e.kernel("reduce_sum", {e.cotangent()}, {e.cotangent_of(operand)},
               {{"dims", dims}, {"accumulate", e.accumulate(operand)}});
  }
}

}  // namespace

const Op kAdd{"add", traits, forward, backward};

}  // namespace tessera::graph
