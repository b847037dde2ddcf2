// Concatenation along one dimension, which stays whole;   dxk = the k-th part of dy.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

/// "ai,aj->az" for two matrices along dimension 1. The k-th operand's own letter is i + k.
OpTraits traits(const Attributes& attributes, std::span<const TensorInfo> operands) {
  const auto dim = static_cast<std::size_t>(attributes.get<std::int64_t>("dim"));
  TESSERA_CHECK(operands.size() <= 17, "concat of {} tensors: at most 17 are supported", operands.size());
  auto tensor = leading(operands[0].shape.size());
  std::string rule;
  std::string own;
  std::int64_t total = 0;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    tensor[dim] = static_cast<char>('i' + k);
    own += tensor[dim];
    rule += (k > 0 ? "," : "") + tensor;
    total += operands[k].shape[dim];
  }
  tensor[dim] = 'z';
  auto t = traits_of(rule + "->" + tensor + ";" + own + "z whole", operands, {{'z', total}});
  t.linear.resize(1);
  for (std::size_t k = 0; k < operands.size(); ++k) t.linear[0].push_back(static_cast<int>(k));
  return t;
}

void backward(Emit& e) {
  const auto& node = e.node();
  const auto dim = node.attributes.get<std::int64_t>("dim");
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> which;
  std::vector<Value> parts;
  for (std::size_t k = 0; k < node.args.size(); ++k) {
    const int operand = static_cast<int>(k);
    sizes.push_back(node.traits.rule.sizes.at(static_cast<char>('i' + k)));
    if (!e.needs(operand)) continue;
    TESSERA_CHECK(!e.accumulate(operand), "{}: an operand is a variable", node.name);
    which.push_back(operand);
    parts.push_back(e.cotangent_of(operand));
  }
  e.kernel("split", {e.cotangent()}, parts, {{"dim", dim}, {"which", which}, {"sizes", sizes}});
}

}  // namespace

const Op kConcat{"concat", traits, emit_forward, backward};

}  // namespace tessera::graph
