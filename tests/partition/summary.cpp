#include "partition/summary.h"

#include <fmt/format.h>

#include "partition/cost.h"
#include "partition/edge.h"

namespace tessera::partition::testing {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

bool is_variable(const Assignment& a, int node) { return a.nodes[at(node)].variable; }

std::int64_t global_bytes(const SolverInput& input, const Assignment& a, int node, bool gradient) {
  const auto& n = input.graph->node(a.nodes[at(node)].graph_node);
  return elements(n.shape()) * (gradient && is_variable(a, node) ? 4 : size_of(n.dtype()));
}

const char* short_name(MoveKind kind) {
  switch (kind) {
    case MoveKind::kAllReduce:
      return "AR";
    case MoveKind::kAllGather:
      return "AG";
    case MoveKind::kReduceScatter:
      return "RS";
    case MoveKind::kAllToAll:
      return "A2A";
    default:
      return "BOX";
  }
}

class Summary {
 public:
  explicit Summary(const SolverInput& input) : input_(input) {}

  void add(const std::string& phase, const std::string& kind, const std::vector<mesh::Axis>& axes, std::int64_t bytes) {
    std::string names;
    for (const auto axis : axes) names += (names.empty() ? "" : "+") + input_.mesh->axis_names()[at(axis)];
    auto& entry = phases_[phase][kind + "@" + names];
    ++entry.first;
    entry.second += bytes;
  }

  void add(const std::string& phase, const std::vector<Move>& moves, std::size_t first, std::int64_t bytes) {
    for (auto i = first; i < moves.size(); ++i)
      if (!is_local(moves[i].kind))
        add(phase, short_name(moves[i].kind), moves[i].axes, moved_bytes(*input_.mesh, moves[i], bytes));
  }

  std::string text() const {
    std::string text;
    for (const auto& [phase, kinds] : phases_) {
      std::string line;
      for (const auto& [kind, entry] : kinds)
        line += fmt::format("{}{} {} {}", line.empty() ? "" : ", ", entry.first, kind, entry.second);
      text += phase + ": " + line + "\n";
    }
    return text;
  }

 private:
  const SolverInput& input_;
  std::map<std::string, std::map<std::string, std::pair<int, std::int64_t>>> phases_;
};

}  // namespace

std::string summary(const SolverInput& input, const Assignment& a) {
  Summary out(input);
  for (int v = 0; v < static_cast<int>(a.nodes.size()); ++v) {
    const auto& node = a.nodes[at(v)];
    for (const auto& inner : a.chosen[at(v)]->inner) {
      const auto n = static_cast<double>(input.mesh->size(inner.axes));
      const auto bytes = inner.ring ? inner.bytes : 2 * (n - 1) / n * inner.bytes;
      out.add(inner.backward ? "bwd.inner" : "fwd.inner", inner.ring ? "RING" : "AR", inner.axes,
              static_cast<std::int64_t>(bytes));
    }
    for (int k = 0; k < static_cast<int>(node.args.size()); ++k) {
      const auto from = node.args[at(k)];
      const bool variable = is_variable(a, from);
      const auto forward = forward_moves(input, a, v, k);
      out.add(variable ? "weight" : "fwd", forward, 0, global_bytes(input, a, from, false));
      if (reads_operand(a, v, k))
        out.add(variable ? "weight.rep" : "rep", forward, first_repeated(*input.mesh, forward),
                global_bytes(input, a, from, false));
      if (node.needs_cotangent && a.nodes[at(from)].needs_cotangent)
        out.add(variable ? "grad" : "bwd", backward_moves(input, a, v, k), 0, global_bytes(input, a, from, true));
    }
    const auto source = input.sources.find(node.graph_node);
    if (!node.hub && node.needs_cotangent && source != input.sources.end()) {
      const auto rank = input.graph->node(node.graph_node).shape().size();
      const auto moves = reshard(*input.mesh, to_layout(source->second.slots, a.variable_order, rank),
                                 to_layout(source->second.value, a.variable_order, rank), false, false);
      out.add("update", *moves, 0, global_bytes(input, a, v, true));
    }
  }
  return out.text();
}

std::optional<std::int64_t> time_from_moves(const SolverInput& input, const Assignment& a) {
  const CostModel cost(*input.mesh, *input.hardware);
  std::int64_t time = 0;
  for (int v = 0; v < static_cast<int>(a.nodes.size()); ++v) {
    const auto& node = a.nodes[at(v)];
    time += a.chosen[at(v)]->cost_fs;
    for (int k = 0; k < static_cast<int>(node.args.size()); ++k) {
      const auto from = node.args[at(k)];
      const auto rights = edge_rights(*input.graph, a.nodes[at(from)], node);
      const auto forward =
          reshard(*input.mesh, a.result_layout(from), a.operand_layout(v, k), rights.forward_pad, rights.forward_zero);
      if (!forward) return std::nullopt;
      const auto bytes = global_bytes(input, a, from, false);
      time += cost.moves(*forward, 0, bytes, false);
      if (reads_operand(a, v, k)) time += cost.moves(*forward, first_repeated(*input.mesh, *forward), bytes, false);
      if (!node.needs_cotangent || !a.nodes[at(from)].needs_cotangent) continue;
      const auto backward = reshard(*input.mesh, a.cotangent_layout(v, k), a.result_cotangent_layout(from),
                                    rights.backward_partial, rights.backward_partial);
      if (!backward) return std::nullopt;
      time += cost.moves(*backward, 0, global_bytes(input, a, from, true), is_variable(a, from));
    }
  }
  return time;
}

std::int64_t penalty_from_moves(const SolverInput& input, const Assignment& a) {
  std::int64_t count = 0;
  for (std::size_t v = 0; v < a.nodes.size(); ++v)
    for (std::size_t k = 0; k < a.nodes[v].args.size(); ++k) {
      const auto from = a.nodes[v].args[k];
      if (!is_variable(a, from)) continue;
      const auto& home = input.sources.at(a.nodes[at(from)].graph_node).value;
      for (mesh::Axis axis = 0; axis < input.mesh->axis_count(); ++axis) {
        const auto here = a.chosen[at(from)]->result[at(axis)];
        const bool batch = std::find(input.batch_axes.begin(), input.batch_axes.end(), axis) != input.batch_axes.end();
        count += home[at(axis)] >= 0 && here >= 0 && a.chosen[v]->operands[k][at(axis)] != here && !batch;
      }
    }
  return count;
}

std::int64_t saved_bytes(const SolverInput& input, const Assignment& a) {
  double sum = 0;
  for (int v = 0; v < static_cast<int>(a.nodes.size()); ++v)
    for (int k = 0; k < static_cast<int>(a.nodes[at(v)].args.size()); ++k) {
      if (!reads_operand(a, v, k)) continue;
      const auto from = a.nodes[at(v)].args[at(k)];
      const auto moves = forward_moves(input, a, v, k);
      const auto first = first_repeated(*input.mesh, moves);
      if (first == 0 && (a.nodes[at(from)].hub || is_variable(a, from))) continue;  // kept once, there
      const auto kept = first < moves.size() ? moves[first].before : a.operand_layout(v, k);
      sum += static_cast<double>(global_bytes(input, a, from, false)) / static_cast<double>(shards(*input.mesh, kept));
    }
  return static_cast<std::int64_t>(sum);
}

}  // namespace tessera::partition::testing
