#include "partition/edge.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace tessera::partition {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Many strategies share a layout of one tensor: the layouts, each once, and which one each strategy has.
struct Distinct {
  std::vector<Placement> layouts;
  std::vector<std::size_t> of;
};

template <typename Get>
Distinct distinct(const std::vector<std::shared_ptr<const Strategy>>& strategies, Get get) {
  Distinct result;
  std::map<Placement, std::size_t> index;
  for (const auto& strategy : strategies) {
    const auto& layout = get(*strategy);
    const auto [found, is_new] = index.try_emplace(layout, result.layouts.size());
    if (is_new) result.layouts.push_back(layout);
    result.of.push_back(found->second);
  }
  return result;
}

}  // namespace

EdgeRights edge_rights(const graph::Graph& graph, const SolverNode& from, const SolverNode& to) {
  const bool scalar = graph.node(from.graph_node).shape().empty();
  const bool sums = to.hub || graph.node(to.graph_node).traits.is_sum;
  return {.forward_pad = sums && scalar, .forward_zero = sums, .backward_partial = from.hub || scalar};
}

std::size_t MoveCache::Hash::operator()(const Key& key) const {
  std::uint64_t a = 0, b = 0;
  static_assert(sizeof(Placement) == sizeof(a));
  std::memcpy(&a, key.from.data(), sizeof(a));
  std::memcpy(&b, key.to.data(), sizeof(b));
  const auto h = (a * 0x9E3779B97F4A7C15U ^ b) * 0xBF58476D1CE4E5B9U ^ key.rest * 0x94D049BB133111EBU;
  return static_cast<std::size_t>(h ^ (h >> 32));
}

const std::vector<Move>* MoveCache::find(const Placement& from, Order from_order, const Placement& to, Order to_order,
                                         std::size_t rank, bool pad, bool zero) {
  const auto rest = static_cast<std::uint32_t>(rank << 4U) | (pad ? 8U : 0U) | (zero ? 4U : 0U) |
                    static_cast<std::uint32_t>(from_order) << 1U | static_cast<std::uint32_t>(to_order);
  const auto [found, is_new] = moves_.try_emplace(Key{from, to, rest});
  if (is_new) {
    auto moves = reshard(mesh_, to_layout(from, maker_.order(from_order), rank),
                         to_layout(to, maker_.order(to_order), rank), pad, zero);
    if (moves) found->second = std::make_unique<const std::vector<Move>>(*std::move(moves));
  }
  return found->second.get();
}

EdgePricer::EdgePricer(const SolverInput& input, const Problem& problem, const CostModel& cost,
                       const StrategyMaker& maker, MoveCache& moves, AxisSet quiet, double saved_byte_fs)
    : input_(input),
      problem_(problem),
      cost_(cost),
      maker_(maker),
      moves_(moves),
      quiet_(quiet),
      saved_byte_fs_(saved_byte_fs) {
  for (const auto axis : input.batch_axes) batch_ |= 1U << axis;
}

bool EdgePricer::is_quiet(const std::vector<Move>& moves) const {
  return std::all_of(moves.begin(), moves.end(), [&](const Move& move) {
    return is_local(move.kind) ||
           std::none_of(move.axes.begin(), move.axes.end(), [&](mesh::Axis axis) { return contains(quiet_, axis); });
  });
}

// What the edge keeps for the backward pass. A hub keeps for its consumers, a variable is state already.
double EdgePricer::saved_bytes(const Edge& edge, const std::vector<Move>& moves, const Placement& operand) const {
  const auto& from = vertex(edge.from);
  const auto& to = vertex(edge.to);
  const auto k = at(edge.operand);
  const auto first = first_repeated(*input_.mesh, moves);
  const bool kept = from.node.hub || from.node.variable || from.keeps_result;
  if (!to.reads(k) || (first == 0 && kept)) return 0;
  const auto share = first < moves.size() ? 1 / static_cast<double>(shards(*input_.mesh, moves[first].before))
                                          : maker_.local_share(operand);
  return static_cast<double>(elements(from.shape()) * to.operand_item[k]) * share;
}

// Axes that don't split the batch on which a variable leaves its place.
int EdgePricer::penalties(const Vertex& variable, const Placement& from, const Placement& to) const {
  int count = 0;
  for (mesh::Axis axis = 0; axis < input_.mesh->axis_count(); ++axis)
    count += !contains(batch_, axis) && variable.value[at(axis)] >= 0 && from[at(axis)] >= 0 &&
             to[at(axis)] != from[at(axis)];
  return count;
}

Cost EdgePricer::forward(const Edge& edge, const Placement& from, const Placement& to) {
  const auto& producer = vertex(edge.from);
  const auto& consumer = vertex(edge.to);
  const auto k = at(edge.operand);
  const auto rights = edge_rights(*input_.graph, producer.node, consumer.node);
  const auto* moves = moves_.find(from, producer.node.order, to, consumer.node.order, producer.shape().size(),
                                  rights.forward_pad, rights.forward_zero);
  if (moves == nullptr || (!producer.node.variable && !is_quiet(*moves))) return kForbidden;
  const auto bytes = elements(producer.shape()) * consumer.operand_item[k];
  Cost cost = cost_.moves(*moves, 0, bytes, false);
  if (consumer.reads(k)) cost += cost_.moves(*moves, first_repeated(*input_.mesh, *moves), bytes, false);
  if (saved_byte_fs_ > 0) cost += static_cast<Cost>(saved_byte_fs_ * saved_bytes(edge, *moves, to));
  if (producer.node.variable) cost += kPenalty * penalties(producer, from, to);
  return cost;
}

Cost EdgePricer::backward(const Edge& edge, const Placement& from, const Placement& to) {
  const auto& producer = vertex(edge.from);
  const auto& consumer = vertex(edge.to);
  const auto rights = edge_rights(*input_.graph, producer.node, consumer.node);
  const auto* moves = moves_.find(from, consumer.node.order, to, producer.node.order, producer.shape().size(),
                                  rights.backward_partial, rights.backward_partial);
  const bool gradient = producer.node.variable;
  if (moves == nullptr || (!gradient && !is_quiet(*moves))) return kForbidden;
  const auto own = size_of(producer.traits->dtype);
  const auto item = gradient ? std::max<std::int64_t>(4, own) : own;  // gradients are written and reduced in f32
  return cost_.moves(*moves, 0, elements(producer.shape()) * item, gradient);
}

std::vector<Cost> EdgePricer::prices(const Edge& edge, const std::vector<std::shared_ptr<const Strategy>>& from,
                                     const std::vector<std::shared_ptr<const Strategy>>& to) {
  const auto k = at(edge.operand);
  const auto results = distinct(from, [](const Strategy& s) -> const Placement& { return s.result; });
  const auto operands = distinct(to, [k](const Strategy& s) -> const Placement& { return s.operands[k]; });
  std::vector<Cost> ahead;
  for (const auto& a : results.layouts)
    for (const auto& b : operands.layouts) ahead.push_back(forward(edge, a, b));

  const auto wanted = distinct(from, [](const Strategy& s) -> const Placement& { return s.result_cotangent; });
  const auto made = distinct(to, [k](const Strategy& s) -> const Placement& { return s.cotangents[k]; });
  std::vector<Cost> back(wanted.layouts.size() * made.layouts.size());
  if (vertex(edge.from).needs() && vertex(edge.to).needs())
    for (std::size_t i = 0; i < wanted.layouts.size(); ++i)
      for (std::size_t j = 0; j < made.layouts.size(); ++j)
        back[i * made.layouts.size() + j] = backward(edge, made.layouts[j], wanted.layouts[i]);

  std::vector<Cost> table;
  table.reserve(from.size() * to.size());
  for (std::size_t i = 0; i < from.size(); ++i)
    for (std::size_t j = 0; j < to.size(); ++j)
      table.push_back(ahead[results.of[i] * operands.layouts.size() + operands.of[j]] +
                      back[wanted.of[i] * made.layouts.size() + made.of[j]]);
  return table;
}

}  // namespace tessera::partition
