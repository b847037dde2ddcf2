#include "partition/solver.h"

#include <algorithm>
#include <cmath>

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
  std::string redundancy(const Assignment& assignment, int node) const;
  std::string explain(const Assignment& from, const Assignment& to, int node, int operand) const;
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
  std::vector<double> once;  // flops over all ranks that share the work
  double all = 0;
  for (const auto& strategy : a.chosen) {
    double flops = strategy->flops;
    for (mesh::Axis axis = 0; axis < input.mesh->axis_count(); ++axis)
      if (divides_work(strategy->labels[at(axis)])) flops *= static_cast<double>(input.mesh->size(axis));
    once.push_back(flops);
    all += flops;
  }
  for (std::size_t v = 0; v < a.nodes.size(); ++v)
    if (once[v] > kNoticeableFlops * all)
      if (auto sentence = redundancy(a, static_cast<int>(v)); !sentence.empty())
        a.warnings.push_back(std::move(sentence));
  if (a.penalty > 0)
    a.warnings.push_back(fmt::format(
        "{} {} moved although no axis of its rule splits the batch: its op cannot compute where the layout map put it",
        a.penalty, a.penalty == 1 ? "variable is" : "variables are"));
}

// "dense_2/matmul is computed 4 times ...", with the sizes that would divide; "" if its work is shared.
std::string Solver::State::redundancy(const Assignment& a, int node) const {
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
  return fmt::format("{} is computed {} times, once a rank of {} {}{}", problem.vertices[at(node)].name, n,
                     axes.size() == 1 ? "axis" : "axes", join(names),
                     odd.empty() ? ": sharing it would cost more than it saves" : "; " + join(odd));
}

Solver::Solver(const SolverInput& input) : state_(std::make_unique<State>(input)) {}
Solver::~Solver() = default;

Assignment Solver::solve(double saved_byte_fs) {
  auto& s = *state_;
  const auto narrow = s.search(false).run(saved_byte_fs, s.input.ban);
  if (s.spare == 0) return s.assignment(narrow, saved_byte_fs, 0);
  const auto wide = s.search(true).run(saved_byte_fs, s.input.ban);
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

// "dense_2/matmul with k over model instead of -: all_reduce over model; backward nothing"
std::string Solver::State::explain(const Assignment& from, const Assignment& to, int node, int operand) const {
  const auto arg = to.nodes[at(node)].args[at(operand)];
  std::vector<std::string> changes;
  for (const auto end : {arg, node}) {
    const auto& before = from.chosen[at(end)]->labels;
    const auto& after = to.chosen[at(end)]->labels;
    std::vector<std::string> axes;
    for (mesh::Axis axis = 0; axis < input.mesh->axis_count(); ++axis)
      if (before[at(axis)] != after[at(axis)])
        axes.push_back(fmt::format("{} over {} instead of {}", after[at(axis)], input.mesh->axis_names()[at(axis)],
                                   before[at(axis)]));
    if (!axes.empty())
      changes.push_back(fmt::format("{} with {}", problem.vertices[at(end)].name, join(axes, " and ")));
  }
  const auto list = [&](const std::vector<Move>& steps) {
    std::vector<std::string> texts;
    for (const auto& move : steps) {
      std::vector<std::string> axes;
      for (const auto axis : move.axes) axes.push_back(input.mesh->axis_names()[at(axis)]);
      texts.push_back(fmt::format("{} over {}", to_string(move.kind), join(axes, "+")));
    }
    return texts.empty() ? std::string("nothing to move") : join(texts, ", ");
  };
  auto text = fmt::format("{}: {}", join(changes, ", "), list(forward_moves(input, to, node, operand)));
  if (to.nodes[at(node)].needs_cotangent && to.nodes[at(arg)].needs_cotangent)
    text += "; backward " + list(backward_moves(input, to, node, operand));
  return text;
}

Alternative Solver::alternative(const Assignment& assignment, int node, int operand) {
  auto& s = *state_;
  const auto from = assignment.nodes[at(node)].args[at(operand)];
  const SolverInput::Ban ban{node, operand, assignment.chosen[at(from)]->result,
                             assignment.chosen[at(node)]->operands[at(operand)]};
  const auto result = s.search(s.spare != 0 && assignment.idle_axes.empty()).run(assignment.saved_byte_fs, ban);
  Alternative alternative;
  alternative.legal = result.cost < kForbidden;
  if (!alternative.legal) {
    alternative.sentence = "nothing else is legal";
    return alternative;
  }
  const auto other = s.assignment(result, assignment.saved_byte_fs, 0);
  alternative.more_penalty = other.penalty - assignment.penalty;
  alternative.more_fs = other.time_fs - assignment.time_fs;
  const auto more = alternative.more_penalty > 0
                        ? fmt::format("{} more {} would leave its place", alternative.more_penalty,
                                      alternative.more_penalty == 1 ? "variable" : "variables")
                    : alternative.more_fs >= 0 ? time_text(alternative.more_fs) + " more"
                                               : time_text(-alternative.more_fs) + " less, but more memory";
  alternative.sentence = s.explain(assignment, other, node, operand) + "; " + more;
  return alternative;
}

Assignment solve(const SolverInput& input) { return Solver(input).solve(input.saved_byte_fs); }

Within solve_within(const SolverInput& input, std::int64_t limit,
                    const std::function<std::int64_t(const Assignment&)>& peak) {
  return Solver(input).solve_within(limit, peak);
}

Alternative alternative(const SolverInput& input, const Assignment& assignment, int node, int operand) {
  return Solver(input).alternative(assignment, node, operand);
}

}  // namespace tessera::partition
