#include "partition/problem.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"

namespace tessera::partition {
namespace {

using graph::Node;
using graph::NodeKind;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

bool low_precision(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

// Variables are cast on their shard, before they move: an op of a narrower dtype reads that.
std::int64_t item_of(const Vertex& from, DType reader) {
  const auto own = size_of(from.traits->dtype);
  const bool cast = from.node.variable && is_float(from.traits->dtype) && is_float(reader);
  return cast ? std::min(own, size_of(reader)) : own;
}

class Builder {
 public:
  explicit Builder(const SolverInput& input) : input_(input), vertex_of_(input.graph->nodes().size(), -1) {
    uses_.resize(vertex_of_.size());
    for (const auto& node : input.graph->nodes())
      for (std::size_t k = 0; k < node.args.size(); ++k) uses_[at(node.args[k])].emplace_back(node.id, k);
  }

  Problem build() {
    for (const auto& node : input_.graph->nodes()) {
      add(node.kind == NodeKind::kOp ? op(node) : source(node));
      const auto pin = input_.pins.find(node.id);
      if (uses_[at(node.id)].size() > 1 || pin != input_.pins.end()) {
        auto hub = hub_of(node);
        if (pin != input_.pins.end()) hub.pin = pin->second;
        add(std::move(hub));
      }
    }
    return std::move(problem_);
  }

 private:
  bool needs(const Node& node) const { return input_.training && node.needs_cotangent; }

  // Operand k of a graph node is kept for the backward pass if a cotangent that reads it goes to somebody.
  bool reads(const Node& node, std::size_t k) const {
    const auto found = node.traits.saves.find(static_cast<int>(k));
    return found != node.traits.saves.end() && any_needed(node, found->second);
  }

  bool any_needed(const Node& node, const std::vector<int>& operands) const {
    return needs(node) && std::any_of(operands.begin(), operands.end(),
                                      [&](int j) { return needs(input_.graph->node(node.args[at(j)])); });
  }

  Vertex source(const Node& node) const {
    const auto found = input_.sources.find(node.id);
    TESSERA_CHECK(found != input_.sources.end(), "the solver was given no layout of {}", node.name);
    Vertex v;
    v.source = true;
    v.node.variable = node.kind == NodeKind::kVariable;
    v.node.order = v.node.variable ? Order::kVariable : Order::kActivation;
    v.value = found->second.value;
    v.gradient = v.node.variable ? found->second.gradient : found->second.value;
    return common(std::move(v), node);
  }

  Vertex op(const Node& node) const {
    Vertex v;
    const auto& rule = node.traits.rule;
    for (std::size_t k = 0; k < node.args.size(); ++k) {
      const auto from = vertex_of_[at(node.args[k])];
      const auto& operand = problem_.vertices[at(from)];
      v.node.args.push_back(from);
      v.node.reads.push_back(reads(node, k));
      v.operand_needs.push_back(needs(node) && operand.needs());
      v.operand_item.push_back(item_of(operand, node.dtype()));
      if (operand.node.batch_dim >= 0)
        v.batch_factor = batch_factor(rule.operands[k][at(operand.node.batch_dim)], rule);
    }
    v.node.order = v.batch_factor != 0 ? Order::kActivation : Order::kVariable;
    v.keeps_result = any_needed(node, node.traits.saves_result);
    return common(std::move(v), node);
  }

  Vertex common(Vertex v, const Node& node) const {
    v.name = node.name;
    v.traits = &node.traits;
    v.node.graph_node = node.id;
    v.node.needs_cotangent = needs(node);
    v.node.batch_dim = node.batch_dim;
    return v;
  }

  /// The first factor of the batch dimension that is not 1.
  static char batch_factor(const graph::DimFactors& factors, const graph::Rule& rule) {
    const auto found = std::find_if(factors.begin(), factors.end(), [&](char f) { return rule.sizes.at(f) > 1; });
    return found != factors.end() ? *found : factors.front();
  }

  Vertex hub_of(const Node& node) {
    const auto& from = problem_.vertices.back();
    const auto letters = graph::letters(node.shape().size());
    graph::OpTraits traits;
    traits.rule.operands = {letters};
    traits.rule.result = letters;
    for (std::size_t d = 0; d < letters.size(); ++d) traits.rule.sizes[letters[d].front()] = node.shape()[d];
    traits.shape = node.shape();
    traits.dtype = node.dtype();
    traits.is_sum = true;
    const auto& uses = uses_[at(node.id)];
    if (std::all_of(uses.begin(), uses.end(), [&](const auto& use) { return may_be_partial(use.first, use.second); }))
      traits.linear = {{0}};
    problem_.hub_traits.push_back(std::move(traits));

    Vertex v = common({}, node);
    v.name += ".hub";
    v.traits = &problem_.hub_traits.back();
    v.node.hub = true;
    v.node.variable = from.node.variable;
    v.node.args = {vertex_of_[at(node.id)]};
    v.node.order = from.node.order;
    // Of what nobody reads no cotangent comes back.
    v.cotangents = static_cast<int>(std::count_if(uses.begin(), uses.end(), [&](const auto& use) {
      return needs(node) && needs(input_.graph->node(use.first));
    }));
    v.node.needs_cotangent = v.cotangents > 0;
    v.node.reads = {std::any_of(uses.begin(), uses.end(),
                                [&](const auto& use) { return reads(input_.graph->node(use.first), use.second); })};
    v.operand_needs = {v.node.needs_cotangent};
    v.operand_item = {hub_item(from, uses)};
    v.batch_factor = node.batch_dim < 0 ? char{0} : letters[at(node.batch_dim)].front();
    v.value = from.value;
    return v;
  }

  std::int64_t hub_item(const Vertex& from, const std::vector<std::pair<int, std::size_t>>& uses) const {
    std::int64_t item = 0;
    for (const auto& use : uses) item = std::max(item, item_of(from, input_.graph->node(use.first).dtype()));
    return item != 0 ? item : size_of(from.traits->dtype);
  }

  bool may_be_partial(int graph_node, std::size_t k) const {
    const auto& node = input_.graph->node(graph_node);
    Vertex v;
    v.traits = &node.traits;
    for (std::size_t j = 0; j < node.args.size(); ++j) v.node.reads.push_back(reads(node, j));
    v.keeps_result = any_needed(node, node.traits.saves_result);
    const auto groups = partial_groups(v);
    return std::any_of(groups.begin(), groups.end(), [&](const std::vector<int>& group) {
      return std::find(group.begin(), group.end(), static_cast<int>(k)) != group.end();
    });
  }

  void add(Vertex v) {
    const auto id = static_cast<int>(problem_.vertices.size());
    for (std::size_t k = 0; k < v.node.args.size(); ++k)
      problem_.edges.push_back({v.node.args[k], id, static_cast<int>(k)});
    vertex_of_[at(v.node.graph_node)] = id;
    v.kind = kinds_.try_emplace(signature(v), problem_.kinds).first->second;
    problem_.kinds = static_cast<int>(kinds_.size());
    problem_.vertices.push_back(std::move(v));
  }

  /// Everything that strategies and edge prices depend on.
  static std::string signature(const Vertex& v) {
    const auto& t = *v.traits;
    fmt::memory_buffer text;
    const auto out = std::back_inserter(text);
    fmt::format_to(out, "{}{}{}{}{}{}{}{}|{}{}|{}|{}|{}|", v.source, v.node.hub, v.node.variable, v.needs(),
                   v.keeps_result, t.matmul, t.is_sum, t.passes, static_cast<int>(v.node.order),
                   static_cast<int>(v.batch_factor), v.cotangents, static_cast<int>(t.dtype), t.shape);
    for (const auto& operand : t.rule.operands) fmt::format_to(out, "{},", fmt::join(operand, " "));
    fmt::format_to(out, "{}|{}|{}|", fmt::join(t.rule.result, " "), t.rule.composite, t.rule.whole);
    for (const auto& [factor, size] : t.rule.sizes) fmt::format_to(out, "{}{}", factor, size);
    fmt::format_to(out, "|{}|{}|{}|{}|", t.linear, v.node.reads, v.operand_needs, v.operand_item);
    for (const auto& inner : t.inner)
      fmt::format_to(out, "{}{}{},{},{};", inner.backward, static_cast<int>(inner.reduce), inner.over, inner.rows,
                     inner.count);
    for (const auto& extra : t.extra)
      fmt::format_to(out, "{}{}{}{},{},{};", extra.label, extra.operands, extra.operand_cotangents, extra.result,
                     extra.result_cotangent, static_cast<int>(extra.divides));
    if (v.source || v.node.variable) fmt::format_to(out, "{}{}", v.value, v.gradient);
    if (v.pin) fmt::format_to(out, "pin{}", *v.pin);
    return fmt::to_string(text);
  }

  const SolverInput& input_;
  Problem problem_;
  std::vector<int> vertex_of_;                                  // by graph node: where its result is handed on
  std::vector<std::vector<std::pair<int, std::size_t>>> uses_;  // by graph node: consumers and their operands
  std::map<std::string, int> kinds_;
};

}  // namespace

Problem make_problem(const SolverInput& input) { return Builder(input).build(); }

std::vector<std::vector<int>> partial_groups(const Vertex& vertex) {
  std::vector<std::vector<int>> groups;
  if (vertex.keeps_result) return groups;
  for (const auto& group : vertex.traits->linear) {
    const bool read = std::any_of(group.begin(), group.end(), [&](int k) { return vertex.reads(at(k)); });
    const bool added = group.size() > 1 || vertex.node.hub;
    if (!read && !(added && low_precision(vertex.traits->dtype))) groups.push_back(group);
  }
  return groups;
}

}  // namespace tessera::partition
