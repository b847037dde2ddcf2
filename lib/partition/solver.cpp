#include "partition/solver.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/error.h"
#include "core/text.h"
#include "partition/search.h"

namespace tessera::partition {
namespace {

// An axis that no layout mentions is used only if that saves over 5%.
constexpr double kWorthAnAxis = 0.95;
// A matmul of over 1% of the flops that is computed again and again deserves a warning.
constexpr double kNoticeableFlops = 0.01;
// Femtoseconds for a saved byte: 1 MB/s, so that nothing but memory counts; and where the bisection starts.
constexpr double kLeastMemory = 1e9, kFastest = 1;
constexpr int kBisections = 8;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

AxisSet unmentioned_axes(const SolverInput& input) {
  AxisSet used = 0;
  for (const auto axis : input.batch_axes) used |= 1U << axis;
  const auto mention = [&](const Placement& placement) {
    for (mesh::Axis axis = 0; axis < input.mesh->axis_count(); ++axis)
      if (placement[at(axis)] >= 0) used |= 1U << axis;
  };
  for (const auto& [node, layouts] : input.sources)
    if (layouts.in_layout_map) mention(layouts.value);
  for (const auto& [node, pin] : input.pins) mention(pin);
  AxisSet spare = 0;
  for (mesh::Axis axis = 0; axis < input.mesh->axis_count(); ++axis)
    if (!contains(used, axis) && input.mesh->size(axis) > 1) spare |= 1U << axis;
  return spare;
}

bool computes_alike(const std::string& label) { return label == "-" || label == "~"; }
bool divides_work(const std::string& label) { return !computes_alike(label) && label != "P"; }

std::string time_text(std::int64_t femtoseconds) {
  const auto us = static_cast<double>(femtoseconds) * 1e-9;
  return us < 1e3   ? fmt::format("{:.3g} us", us)
         : us < 1e6 ? fmt::format("{:.3g} ms", us * 1e-3)
                    : fmt::format("{:.3g} s", us * 1e-6);
}

}  // namespace

struct Solver::State {
  explicit State(const SolverInput& in)
      : input(in),
        problem(make_problem(in)),
        cost(*in.mesh, *in.hardware),
        maker(in, cost),
        moves(*in.mesh, maker),
        spare(unmentioned_axes(in)) {}

  const SolverInput& input;
  Problem problem;
  CostModel cost;
  StrategyMaker maker;
  MoveCache moves;
  AxisSet spare;
  std::optional<Search> narrow, wide;  // without the spare axes, and with them but quiet there

  Search& search(bool use_spare) {
    auto& slot = use_spare ? wide : narrow;
    if (!slot) slot.emplace(input, problem, cost, maker, moves, use_spare ? 0 : spare, use_spare ? spare : 0);
    return *slot;
  }

  Assignment assignment(const Search::Result& result, double saved_byte_fs, AxisSet idle) const;
  void warn(Assignment& assignment) const;
  std::string redundancy(const Assignment& assignment, int node, int count) const;
  std::string explain(const Assignment& assignment, const Edge& edge, const Strategy& from, const Strategy& to);
};

Assignment Solver::State::assignment(const Search::Result& result, double saved_byte_fs, AxisSet idle) const {
  Assignment a;
  for (const auto& vertex : problem.vertices) a.nodes.push_back(vertex.node);
  a.chosen = result.chosen;
  a.penalty = penalty_of(result.cost);
  a.how = result.how;
  a.joint_table = static_cast<std::int64_t>(std::min(result.joint_table, 9e18));
  a.table = static_cast<std::int64_t>(result.table);
  a.activation_order = maker.order(Order::kActivation);
  a.variable_order = maker.order(Order::kVariable);
  a.graph = input.graph;
  a.time_fs = time_of(result.unpriced);
  a.saved_byte_fs = saved_byte_fs;
  for (mesh::Axis axis = 0; axis < input.mesh->axis_count(); ++axis)
    if (contains(idle, axis)) a.idle_axes.push_back(axis);
  warn(a);
  return a;
}

void Solver::State::warn(Assignment& a) const {
  for (const auto axis : a.idle_axes)
    a.warnings.push_back(
        fmt::format("axis '{}' ({}) is not used: no layout mentions it, and using it would save less than 5%",
                    input.mesh->axis_names()[at(axis)], input.mesh->size(axis)));
  // Equal ops share a warning.
  struct Alike {
    int first = -1, count = 0;
    double flops = 0;  // over all ranks that share the work
  };
  std::map<std::pair<int, std::vector<std::string>>, Alike> groups;
  double all = 0;
  for (std::size_t v = 0; v < a.nodes.size(); ++v) {
    const auto& strategy = *a.chosen[v];
    double flops = strategy.flops;
    for (mesh::Axis axis = 0; axis < input.mesh->axis_count(); ++axis)
      if (divides_work(strategy.labels[at(axis)])) flops *= static_cast<double>(input.mesh->size(axis));
    auto& group = groups[{problem.vertices[v].kind, strategy.labels}];
    if (group.count++ == 0) group.first = static_cast<int>(v);
    group.flops += flops;
    all += flops;
  }
  for (const auto& [key, group] : groups)  // in order of first appearance, as kinds are numbered
    if (group.flops > kNoticeableFlops * all)
      if (auto sentence = redundancy(a, group.first, group.count); !sentence.empty())
        a.warnings.push_back(std::move(sentence));
  if (a.penalty > 0)
    a.warnings.push_back(fmt::format(
        "{} {} moved although no axis of its rule splits the batch: its op cannot compute where the layout map put it",
        a.penalty, a.penalty == 1 ? "variable is" : "variables are"));
}

// "dense_2/matmul is computed 4 times ...", with the sizes that would divide; "" if its work is shared.
std::string Solver::State::redundancy(const Assignment& a, int node, int count) const {
  const auto& labels = a.chosen[at(node)]->labels;
  std::vector<mesh::Axis> axes;
  std::vector<std::string> names;
  for (mesh::Axis axis = 0; axis < input.mesh->axis_count(); ++axis) {
    const bool idle = std::find(a.idle_axes.begin(), a.idle_axes.end(), axis) != a.idle_axes.end();
    if (!computes_alike(labels[at(axis)]) || idle || input.mesh->size(axis) == 1) continue;
    axes.push_back(axis);
    names.push_back(fmt::format("'{}' ({})", input.mesh->axis_names()[at(axis)], input.mesh->size(axis)));
  }
  if (axes.empty()) return {};
  const auto& rule = problem.vertices[at(node)].traits->rule;
  const auto n = input.mesh->size(axes);
  std::vector<std::string> odd;
  for (const auto& [factor, size] : rule.sizes) {
    auto parts = n;  // and those into which other axes split it
    for (mesh::Axis axis = 0; axis < input.mesh->axis_count(); ++axis)
      if (a.chosen[at(node)]->factor[at(axis)] == factor) parts *= input.mesh->size(axis);
    if (size == 1 || rule.whole.find(factor) != std::string::npos || size % parts == 0) continue;
    const auto below = size / parts * parts;
    odd.push_back(fmt::format("{} = {} does not divide, {}{} would", factor, size,
                              below > 0 ? fmt::format("{} or ", below) : "", below + parts));
  }
  const auto name = problem.vertices[at(node)].name + (count > 1 ? fmt::format(" and {} like it", count - 1) : "");
  return fmt::format("{} {} computed {} times, once a rank of {} {}{}", name, count > 1 ? "are" : "is", n,
                     axes.size() == 1 ? "axis" : "axes", join(names),
                     odd.empty() ? ": sharing the work would cost more than it saves" : "; " + join(odd));
}

Solver::Solver(const SolverInput& input) : state_(std::make_unique<State>(input)) {}
Solver::~Solver() = default;

Assignment Solver::solve(double saved_byte_fs) {
  auto& s = *state_;
  const auto narrow = s.search(false).run(saved_byte_fs);
  if (s.spare == 0) return s.assignment(narrow, saved_byte_fs, 0);
  const auto wide = s.search(true).run(saved_byte_fs);
  const auto time = [](const Search::Result& r) { return static_cast<double>(r.cost % kPenalty); };
  const auto fewer = penalty_of(wide.cost) - penalty_of(narrow.cost);
  const bool worth = fewer < 0 || (fewer == 0 && time(wide) < kWorthAnAxis * time(narrow));
  return worth ? s.assignment(wide, saved_byte_fs, 0) : s.assignment(narrow, saved_byte_fs, s.spare);
}

Within Solver::solve_within(std::int64_t limit, const std::function<std::int64_t(const Assignment&)>& peak) {
  Within best{solve(0), true};
  if (peak(best.assignment) <= limit) return best;
  best.assignment = solve(kLeastMemory);
  best.fits = peak(best.assignment) <= limit;
  if (!best.fits) return best;
  double low = kFastest, high = kLeastMemory;
  for (int i = 0; i < kBisections; ++i) {
    const auto price = std::sqrt(low * high);
    auto assignment = solve(price);
    const bool fits = peak(assignment) <= limit;
    (fits ? high : low) = price;
    if (fits) best.assignment = std::move(assignment);
  }
  return best;
}

// "dense_2/matmul with k over model instead of -: all_reduce over model; backward nothing to move"
std::string Solver::State::explain(const Assignment& assignment, const Edge& edge, const Strategy& from,
                                   const Strategy& to) {
  std::vector<std::string> changes;
  const auto compare = [&](int node, const Strategy& other) {
    const auto& before = assignment.chosen[at(node)]->labels;
    std::vector<std::string> axes;
    for (mesh::Axis axis = 0; axis < input.mesh->axis_count(); ++axis)
      if (before[at(axis)] != other.labels[at(axis)])
        axes.push_back(fmt::format("{} over {} instead of {}", other.labels[at(axis)],
                                   input.mesh->axis_names()[at(axis)], before[at(axis)]));
    if (!axes.empty())
      changes.push_back(fmt::format("{} with {}", problem.vertices[at(node)].name, join(axes, " and ")));
  };
  compare(edge.from, from);
  compare(edge.to, to);
  const auto list = [&](const std::vector<Move>* steps) {
    std::vector<std::string> texts;
    for (const auto& move : *steps) {
      std::vector<std::string> axes;
      for (const auto axis : move.axes) axes.push_back(input.mesh->axis_names()[at(axis)]);
      texts.push_back(fmt::format("{} over {}", to_string(move.kind), join(axes, "+")));
    }
    return texts.empty() ? std::string("nothing to move") : join(texts, ", ");
  };
  const auto& a = problem.vertices[at(edge.from)];
  const auto& b = problem.vertices[at(edge.to)];
  const auto rights = edge_rights(*input.graph, a.node, b.node);
  const auto k = at(edge.operand);
  auto text = fmt::format("{}: {}", join(changes),
                          list(moves.find(from.result, a.node.order, to.operands[k], b.node.order, a.shape().size(),
                                          rights.forward_pad, rights.forward_zero)));
  if (a.needs() && b.needs())
    text += "; backward " + list(moves.find(to.cotangents[k], b.node.order, from.result_cotangent, a.node.order,
                                            a.shape().size(), rights.backward_partial, rights.backward_partial));
  return text;
}

std::vector<std::vector<Alternative>> Solver::alternatives(const Assignment& assignment) {
  auto& s = *state_;
  auto& search = s.search(s.spare != 0 && assignment.idle_axes.empty());
  const auto best = search.run(assignment.saved_byte_fs);
  const auto found = search.alternatives(assignment.saved_byte_fs);
  std::vector<std::vector<Alternative>> all(assignment.nodes.size());
  for (std::size_t e = 0; e < found.size(); ++e) {  // edges come by node and operand
    auto& alternative = all[at(s.problem.edges[e].to)].emplace_back();
    alternative.legal = found[e].cost < kForbidden;
    alternative.sentence = "nothing else is legal";
    if (!alternative.legal) continue;
    alternative.more_penalty = penalty_of(found[e].cost) - penalty_of(best.cost);
    alternative.more_fs = time_of(found[e].cost) - time_of(best.cost);
    const auto more =
        alternative.more_penalty > 0
            ? fmt::format("{} more {} its place", alternative.more_penalty,
                          alternative.more_penalty == 1 ? "variable would leave" : "variables would leave")
            : time_text(alternative.more_fs) + " more";
    alternative.sentence = s.explain(assignment, s.problem.edges[e], *found[e].from, *found[e].to) + "; " + more;
  }
  return all;
}

Assignment solve(const SolverInput& input) { return Solver(input).solve(input.saved_byte_fs); }

Within solve_within(const SolverInput& input, std::int64_t limit,
                    const std::function<std::int64_t(const Assignment&)>& peak) {
  return Solver(input).solve_within(limit, peak);
}

std::vector<std::vector<Alternative>> alternatives(const SolverInput& input, const Assignment& assignment) {
  return Solver(input).alternatives(assignment);
}

}  // namespace tessera::partition
