#include "partition/graph_lowering.h"

#include <algorithm>
#include <utility>

#include "core/text.h"
#include "partition/lowering_emit.h"

namespace tessera::partition {

GraphLowering::GraphLowering(ProgramBuilder& builder, const SolverInput& input, const Assignment& assignment,
                             Options options)
    : builder_(builder),
      input_(input),
      assignment_(assignment),
      options_(std::move(options)),
      states_(assignment.nodes.size()),
      in_prologue_(assignment.nodes.size(), false) {}

const graph::Node& GraphLowering::graph_node(int node) const {
  return input_.graph->node(solver_node(node).graph_node);
}

bool GraphLowering::is_variable(int node) const {
  return graph_node(node).kind == graph::NodeKind::kVariable && !solver_node(node).hub;
}

std::string GraphLowering::operand_name(int node, int k) const {
  return graph_node(solver_node(node).args[static_cast<std::size_t>(k)]).name;
}

mesh::Layout GraphLowering::result_layout(int id) const {
  for (std::size_t n = 0; n < assignment_.nodes.size(); ++n)
    if (assignment_.nodes[n].graph_node == id && !assignment_.nodes[n].hub)
      return assignment_.result_layout(static_cast<int>(n));
  fail(ExitCode::kInternal, "graph node {} was not solved", id);
}

int GraphLowering::edge_report(int node, int k, const std::vector<Move>& moves) {
  if (std::all_of(moves.begin(), moves.end(), [](const Move& m) { return is_local(m.kind); })) return -1;
  auto& edges = builder_.plan().edges;
  EdgeReport report;
  report.from = operand_name(node, k);
  report.to = solver_node(node).hub ? graph_node(node).name + " (shared)" : graph_node(node).name;
  report.from_layout = to_string(moves.front().before, builder_.mesh());
  report.to_layout = to_string(moves.back().after, builder_.mesh());
  report.chosen = join(strategy(node).labels, " ");
  report.program = builder_.program().name + options_.suffix;
  report.node = node;
  report.operand = k;
  edges.push_back(std::move(report));
  return static_cast<int>(edges.size()) - 1;
}

int GraphLowering::operand(int node, int k) {
  const auto arg = static_cast<std::size_t>(solver_node(node).args[static_cast<std::size_t>(k)]);
  const int from = states_[arg].result;
  const auto place = builder_.place;
  if (in_prologue_[arg]) {  // what moves a count moves once a step
    builder_.place.section = prologue_;
    builder_.place.phase = Phase::kPrologue;
  }
  const auto moves = forward_moves(input_, assignment_, node, k);
  const int edge = edge_report(node, k, moves);
  const auto reason = fmt::format("{} reads {}", graph_node(node).name, operand_name(node, k));
  const auto first = first_repeated(builder_.mesh(), moves);
  const std::vector<Move> kept(moves.begin(), moves.begin() + static_cast<std::ptrdiff_t>(first));
  const std::vector<Move> repeat(moves.begin() + static_cast<std::ptrdiff_t>(first), moves.end());
  const int saved = builder_.apply(from, kept, reason, edge);
  states_[static_cast<std::size_t>(node)].operands.push_back({saved, repeat, edge});
  const int moved = builder_.apply(saved, repeat, reason, edge);
  builder_.place = place;
  return moved;
}

void GraphLowering::forward(Section* prologue, Section* body) {
  prologue_ = prologue;
  body_ = body;
  for (std::size_t n = 0; n < assignment_.nodes.size(); ++n) lower_node(static_cast<int>(n));
}

void GraphLowering::lower_node(int node) {
  const auto& s = solver_node(node);
  auto& state = states_[static_cast<std::size_t>(node)];
  if (!s.hub && graph_node(node).kind != graph::NodeKind::kOp) {
    const auto it = sources_.find(s.graph_node);
    TESSERA_CHECK(it != sources_.end(), "source {} is not bound", graph_node(node).name);
    state.result = it->second;
    results_[s.graph_node] = state.result;
    return;
  }
  const bool prologue = s.hub ? in_prologue_[static_cast<std::size_t>(s.args[0])] : graph_node(node).prologue;
  in_prologue_[static_cast<std::size_t>(node)] = prologue;
  builder_.place = {prologue ? prologue_ : body_, prologue ? Phase::kPrologue : options_.phase, graph_node(node).layer,
                    -1};
  if (s.hub) {
    state.result = operand(node, 0);
    results_[s.graph_node] = state.result;
    return;
  }
  if (prologue) {
    lower_prologue_node(node);
  } else {
    std::vector<int> operands;
    for (std::size_t k = 0; k < s.args.size(); ++k) operands.push_back(operand(node, static_cast<int>(k)));
    LoweringEmit emit(builder_, assignment_, node, graph_node(node), strategy(node), operands);
    const auto placed = placed_.find(s.graph_node);
    if (placed != placed_.end() && builder_.value(placed->second).layout == assignment_.result_layout(node))
      emit.place_result(placed->second);
    graph_node(node).op->forward(emit);
    state.result = emit.result().id;
    state.saved = emit.take_saved();
  }
  results_[s.graph_node] = state.result;
}

// A count over the inputs of the whole batch: the parts of all micro-batches, one after the other, then their sum.
void GraphLowering::lower_prologue_node(int node) {
  const auto& s = solver_node(node);
  const bool of_inputs =
      std::all_of(s.args.begin(), s.args.end(), [&](int a) { return !in_prologue_[static_cast<std::size_t>(a)]; });
  const std::int64_t parts = of_inputs ? options_.micro_batches : 1;
  std::vector<int> results;
  for (std::int64_t m = 0; m < parts; ++m) {
    if (of_inputs) builder_.place.micro_batch = static_cast<int>(m);
    std::vector<int> operands;
    for (std::size_t k = 0; k < s.args.size(); ++k) operands.push_back(operand(node, static_cast<int>(k)));
    LoweringEmit emit(builder_, assignment_, node, graph_node(node), strategy(node), operands);
    graph_node(node).op->forward(emit);
    results.push_back(emit.result().id);
  }
  builder_.place.micro_batch = -1;
  auto& state = states_[static_cast<std::size_t>(node)];
  state.result = results.size() == 1 ? results[0] : sum_of(node, results);
}

int GraphLowering::sum_of(int node, const std::vector<int>& parts) {
  if (parts.size() == 1) return parts[0];
  const auto v = builder_.value(parts[0]);
  const int sum = builder_.add_value("sum " + graph_node(node).name, v.shape, v.dtype, v.layout);
  builder_.kernel("add_n", parts, {sum});
  return sum;
}

void GraphLowering::backward(int loss_node, Section* prologue, Section* body, Section* after) {
  prologue_ = prologue;
  body_ = body;
  after_ = after;
  const int count = static_cast<int>(assignment_.nodes.size());
  for (int n = count - 1; n >= 0; --n) {
    const auto& s = solver_node(n);
    if (!s.needs_cotangent || is_variable(n)) continue;
    builder_.place = {body_, Phase::kBackward, graph_node(n).layer, -1};
    if (s.graph_node == loss_node && !s.hub) {
      const auto layout = assignment_.result_cotangent_layout(n);
      TESSERA_CHECK(layout.partial.empty(), "the loss has a partial cotangent");
      const int one = builder_.add_value("d loss", graph_node(n).shape(), graph_node(n).dtype(), layout);
      builder_.kernel("fill", {}, {one}, {{"value", 1.0}});
      cotangents_[n].push_back(one);
    }
    const auto it = cotangents_.find(n);
    if (it == cotangents_.end()) continue;  // nothing that the loss depends on
    run_backward(n, sum_of(n, it->second));
  }
  for (int n = 0; n < count; ++n) {
    if (!is_variable(n) || !solver_node(n).needs_cotangent || gradients_.contains(solver_node(n).graph_node)) continue;
    builder_.place = {body_, Phase::kBackward, graph_node(n).layer, -1};
    const int zero = builder_.add_value("grad " + graph_node(n).name, graph_node(n).shape(), DType::kF32,
                                        assignment_.result_cotangent_layout(n));
    builder_.kernel("fill", {}, {zero}, {{"value", 0.0}});
    gradients_[solver_node(n).graph_node] = zero;
  }
}

void GraphLowering::run_backward(int node, int cotangent) {
  const auto& s = solver_node(node);
  if (s.hub) {
    deliver(node, 0, cotangent);
    return;
  }
  auto& state = states_[static_cast<std::size_t>(node)];
  std::vector<int> operands;
  for (std::size_t k = 0; k < s.args.size(); ++k) {
    if (!reads_operand(assignment_, node, static_cast<int>(k))) {
      operands.push_back(-1);
      continue;
    }
    const auto& saved = state.operands[k];
    operands.push_back(builder_.apply(saved.value, saved.repeat,
                                      fmt::format("the gradient of {} reads {} again", graph_node(node).name,
                                                  operand_name(node, static_cast<int>(k))),
                                      saved.edge));
  }
  LoweringEmit emit(builder_, assignment_, node, graph_node(node), strategy(node), operands);
  emit.set_backward(cotangent, state.result, state.saved);
  std::vector<int> wanted;
  for (std::size_t k = 0; k < s.args.size(); ++k) {
    const int arg = s.args[k];
    if (!solver_node(arg).needs_cotangent) continue;
    const bool adds = options_.micro_batches > 1 && is_variable(arg) && !options_.reduce_every_micro_batch;
    emit.want_cotangent(static_cast<int>(k), is_variable(arg), adds);
    wanted.push_back(static_cast<int>(k));
  }
  TESSERA_CHECK(graph_node(node).op->backward != nullptr, "{} has no gradient", graph_node(node).op->name);
  graph_node(node).op->backward(emit);
  for (const int k : wanted) deliver(node, k, emit.cotangent_of(k).id);
}

void GraphLowering::deliver(int node, int k, int cotangent) {
  const int arg = solver_node(node).args[static_cast<std::size_t>(k)];
  const auto moves = backward_moves(input_, assignment_, node, k);
  const int edge = edge_report(node, k, moves);
  if (!is_variable(arg)) {
    const auto reason = fmt::format("gradient of {} from {}", operand_name(node, k), graph_node(node).name);
    cotangents_[arg].push_back(builder_.apply(cotangent, moves, reason, edge));
    return;
  }
  // Of a variable: with micro-batches it is accumulated before it is reduced, or reduced every time (ZeRO-2).
  const auto reason = fmt::format("gradient of {}", operand_name(node, k));
  const auto body_place = builder_.place;
  const bool direct = !solver_node(node).hub;
  int value = cotangent;
  const auto accumulate = [&] {
    const auto v = builder_.value(value);
    const int sum = builder_.add_value(v.name, v.shape, v.dtype, v.layout);
    builder_.place.section = prologue_;
    builder_.kernel("fill", {}, {sum}, {{"value", 0.0}});
    builder_.place = body_place;
    builder_.kernel("add_n", {sum, value}, {sum});
    value = sum;
  };
  const bool many = options_.micro_batches > 1;
  if (many && !options_.reduce_every_micro_batch) {
    if (!direct) accumulate();
    builder_.place.section = after_;
  }
  builder_.place.phase = Phase::kGradient;
  value = builder_.apply(value, moves, reason, edge);
  builder_.place = body_place;
  if (many && options_.reduce_every_micro_batch) accumulate();
  gradients_[solver_node(arg).graph_node] = value;
}

}  // namespace tessera::partition
