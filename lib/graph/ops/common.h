#pragma once

#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/graph.h"
#include "graph/ops/ops.h"

namespace tessera::graph {

/// Letters of `rank` leading dimensions: a, b, ... They end at h; an op takes its own factors from i on.
inline std::string leading(std::size_t rank) {
  TESSERA_CHECK(rank <= kMostDimensions, "a tensor of {} dimensions", rank);
  return std::string("abcdefgh").substr(0, rank);
}

inline std::vector<Shape> shapes_of(std::span<const TensorInfo> operands) {
  std::vector<Shape> shapes;
  for (const auto& operand : operands) shapes.push_back(operand.shape);
  return shapes;
}

/// Traits with the rule of a text; shape by the rule, dtype f32.
inline OpTraits traits_of(const std::string& rule, std::span<const TensorInfo> operands,
                          std::map<char, std::int64_t> sizes = {}) {
  OpTraits traits;
  traits.rule = parse_rule(rule, shapes_of(operands), std::move(sizes));
  traits.shape = shape_of(traits.rule.result, traits.rule.sizes);
  return traits;
}

/// All operands and the result have the same shape.
inline OpTraits elementwise_traits(std::span<const TensorInfo> operands) {
  const auto tensor = leading(operands[0].shape.size());
  std::string rule = tensor;
  for (std::size_t k = 1; k < operands.size(); ++k) rule += "," + tensor;
  return traits_of(rule + "->" + tensor, operands);
}

/// "step c0 c1": constants with all their digits.
template <typename... Constants>
std::string step(const std::string& text, Constants... constants) {
  std::string out = text;
  ((out += fmt::format(" {}", static_cast<double>(constants))), ...);
  return out;
}

/// Letters of all dimensions of a tensor.
inline std::string joined(const TensorFactors& factors) {
  std::string all;
  for (const auto& dim : factors) all += dim;
  return all;
}

/// Writes operand k's cotangent through `write(value)` with a kernel that has no attribute `accumulate`.
template <typename Write>
void write_cotangent(Emit& e, int k, Write&& write) {
  if (!e.needs(k)) return;
  if (!e.accumulate(k)) return write(e.cotangent_of(k));
  const auto& factors = e.node().traits.rule.operands[static_cast<std::size_t>(k)];
  const Value term = e.temp(fmt::format("cotangent_{}", k), joined(factors), DType::kF32);
  write(term);
  e.kernel("reduce_sum", {term}, {e.cotangent_of(k)}, {{"dims", std::vector<std::int64_t>{}}, {"accumulate", true}});
}

/// Forward pass of an op that is one kernel of its own name: all operands, the result, the op's attributes.
inline void emit_forward(Emit& e) {
  std::vector<Value> inputs;
  for (std::size_t k = 0; k < e.node().args.size(); ++k) inputs.push_back(e.input(static_cast<int>(k)));
  e.kernel(std::string(e.node().op->name), inputs, {e.result()}, e.node().attributes);
}

inline std::vector<std::int64_t> range(std::size_t count) {
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<std::int64_t>(i));
  return values;
}

}  // namespace tessera::graph
