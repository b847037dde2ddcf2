#include "partition/plan.h"

#include <algorithm>
#include <numeric>

#include "core/text.h"
#include "mesh/layout.h"
#include "partition/accesses.h"
#include "partition/explain.h"
#include "partition/graph_lowering.h"
#include "partition/layouts.h"
#include "partition/memory_limit.h"
#include "partition/passes.h"

namespace tessera::partition {
namespace {

constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;  // as torch's DistributedDataParallel

/// The weights' layouts, by path, of all models.
std::map<std::string, SolverInput::SourceLayouts> weight_layouts(const PlanRequest& request) {
  std::map<std::string, SolverInput::SourceLayouts> out;
  for (const auto& [name, model] : request.models)
    for (const auto& node : model->main.nodes())
      if (node.kind == graph::NodeKind::kVariable && node.variable->role == graph::VariableRole::kWeight)
        out.emplace(node.name, variable_layouts(*request.distribution, node.name, node.shape()));
  return out;
}

class Planner {
 public:
  explicit Planner(const PlanRequest& request) : request_(request), weights_(weight_layouts(request)) {
    const auto& d = *request_.distribution;
    activation_order_ = mesh::activation_order(d.mesh, d.batch_axes);
    variable_order_ = mesh::variable_order(d.mesh, d.batch_axes);
  }

  Plan run() {
    solve_all();
    auto plan = assemble();
    const auto limit = request_.memory_limit > 0 ? request_.memory_limit : request_.hardware.memory_bytes;
    if (limit > 0 && device_bytes(plan) > limit) plan = fit(limit);
    if (request_.explain) explain_edges(plan, main_inputs_, main_);
    return plan;
  }

 private:
  SolverInput solver_input(const graph::Graph& graph, bool training) const {
    const auto& d = *request_.distribution;
    SolverInput input;
    input.graph = &graph;
    input.mesh = &d.mesh;
    input.batch_axes = d.batch_axes;
    input.hardware = &request_.hardware;
    input.training = training;
    return input;
  }

  void solve_all() {
    for (const auto& [name, model] : request_.models) {
      auto input = solver_input(model->main, name == "train");
      set_main_sources(input, *request_.distribution);
      main_[name] = solve(input);
      main_inputs_[name] = std::move(input);
      solve_update(name + "/apply", model->update, model->update_outputs);
      solve_update(name + "/accumulate", model->accumulate, model->accumulate_outputs);
    }
  }

  void solve_update(const std::string& name, const graph::Graph& graph,
                    const std::vector<graph::GraphOutput>& outputs) {
    if (graph.nodes().empty()) return;
    auto input = solver_input(graph, false);
    set_update_sources(input, weights_, outputs);
    main_[name] = solve(input);
    main_inputs_[name] = std::move(input);
  }

  /// Solves the training step again within the limit, with the real peak of each candidate.
  Plan fit(std::int64_t limit) {
    const std::string name = request_.models.front().first;
    const auto peak = [&](const Assignment& candidate) {
      main_[name] = candidate;
      return device_bytes(assemble());
    };
    const auto result = solve_within(main_inputs_.at(name), limit, peak);
    main_[name] = result.assignment;
    auto plan = assemble();
    if (!result.fits) fail_out_of_memory(plan, limit, request_);
    return plan;
  }

  void add_state(Plan& plan, const graph::Graph& graph) const {
    for (const auto& node : graph.nodes()) {
      if (node.kind != graph::NodeKind::kVariable || node.variable->role == graph::VariableRole::kGradient) continue;
      const auto same = [&](const StateBuffer& s) { return s.variable.path == node.name; };
      if (std::any_of(plan.state.begin(), plan.state.end(), same)) continue;
      StateBuffer s;
      s.variable = *node.variable;
      s.shape = node.shape();
      s.dtype = node.dtype();
      Placement placement;
      placement.fill(kReplicated);
      if (s.variable.role == graph::VariableRole::kWeight) placement = weights_.at(s.variable.path).value;
      if (s.variable.role == graph::VariableRole::kSlot) placement = weights_.at(s.variable.weight).slots;
      s.layout = to_layout(placement, variable_order_, s.shape.size());
      s.local = mesh::local_shape(s.layout, plan.mesh, s.shape);
      s.bytes = local_bytes(s.local, s.dtype);
      plan.state.push_back(std::move(s));
    }
  }

  Plan assemble() {
    Plan plan;
    plan.mesh = request_.distribution->mesh;
    plan.batch_axes = request_.distribution->batch_axes;
    plan.hardware = request_.hardware.name;
    for (const auto& [name, model] : request_.models) {
      add_state(plan, model->main);
      add_state(plan, model->update);
      add_state(plan, model->accumulate);
    }
    for (const auto& [name, model] : request_.models) lower_model(plan, name, *model);
    for (auto& [name, program] : plan.programs) run_passes(plan, program);
    lay_out_memory(plan);
    const auto& first = main_.at(request_.models.front().first);
    plan.warnings = first.warnings;
    plan.solver = first.how;
    return plan;
  }

  static void run_passes(const Plan& plan, Program& program) {
    fuse_kernels(program);
    elide_copies(program);
    pack_collectives(program, plan.mesh, kBucketBytes);
    prefetch_gathers(program);
    write_in_place(program);
    add_waits(program);
  }

  void lay_out_memory(Plan& plan) const {
    std::int64_t state = 0, comm = 0;
    for (auto& s : plan.state) {
      auto& end = s.pool == Pool::kComm ? comm : state;
      s.offset = end;
      end += aligned(s.bytes);
    }
    PoolSizes most;
    most.comm = comm;
    for (auto& [name, program] : plan.programs) {
      for (auto& v : program.values) {
        if (v.state < 0) continue;
        const auto& s = plan.state[static_cast<std::size_t>(v.state)];
        v.pool = s.pool;
        v.offset = s.offset;
      }
      const auto sizes = allocate(program, comm);
      most.arena = std::max(most.arena, sizes.arena);
      most.comm = std::max(most.comm, sizes.comm);
      most.staging = std::max(most.staging, sizes.staging);
    }
    for (auto& [name, program] : plan.programs) {
      program.prefetch_offset = most.staging;
      most.staging += program.prefetch_bytes = prefetch_bytes(program);
    }
    plan.pool_bytes[static_cast<int>(Pool::kState)] = state;
    plan.pool_bytes[static_cast<int>(Pool::kArena)] = most.arena;
    plan.pool_bytes[static_cast<int>(Pool::kComm)] = most.comm;
    plan.pool_bytes[static_cast<int>(Pool::kStaging)] = most.staging;
    plan.pool_bytes[static_cast<int>(Pool::kScratch)] = scratch_bytes(plan);
  }

  /// Loaders of several programs are in use at once: each has memory of its own.
  std::int64_t prefetch_bytes(const Program& program) const {
    if (request_.loader_bytes == 0 || program.inputs.empty()) return 0;
    auto bytes = aligned(request_.loader_bytes);
    for (const int input : program.inputs) bytes += aligned(program.values[static_cast<std::size_t>(input)].bytes);
    return bytes;
  }

  /// Of the kernel that needs most, and at least the profile's.
  std::int64_t scratch_bytes(Plan& plan) const {
    auto most = request_.hardware.scratch_bytes;
    if (!request_.scratch) return most;
    for (auto& [name, program] : plan.programs)
      for (const auto* section : sections_of(program))
        for (const auto& instruction : section->instructions)
          if (const auto* call = std::get_if<KernelCall>(&instruction.what))
            most = std::max(most, request_.scratch(program, *call));
    return aligned(most);
  }

  void lower_model(Plan& plan, const std::string& name, const graph::Model& model) {
    auto& program = plan.programs[name];
    program.name = name;
    program.micro_batches = name == "train" ? request_.micro_batches : 1;
    program.predicted_fs = main_.at(name).time_fs * program.micro_batches;
    ProgramBuilder builder(plan, program);
    GraphLowering::Options options;
    options.micro_batches = program.micro_batches;
    options.reduce_every_micro_batch = request_.distribution->zero_stage >= 2;
    GraphLowering main(builder, main_inputs_.at(name), main_.at(name), options);
    place_metrics(builder, main, model);
    bind_sources(builder, main, model.main);
    main.forward(&program.prologue, &program.body);
    Section after;
    auto& end = program.micro_batches > 1 ? after : program.body;
    take_outputs(builder, main, model, name, end);
    if (name == "train") {
      const auto loss = std::find_if(model.outputs.begin(), model.outputs.end(), [](const graph::GraphOutput& o) {
        return o.kind == graph::GraphOutput::Kind::kLoss;
      });
      TESSERA_CHECK(loss != model.outputs.end(), "a training graph without a loss");
      main.backward(loss->node, &program.prologue, &program.body, &end);
      for (const auto& [node, value] : main.gradients()) program.gradients[model.main.node(node).name] = value;
      if (program.micro_batches > 1) {
        program.epilogues["apply"] = after;
        if (!model.accumulate.nodes().empty()) program.epilogues["accumulate"] = after;
      }
      lower_update(builder, name + "/apply", model.update, model.update_outputs, program.epilogues["apply"]);
      if (!model.accumulate.nodes().empty())
        lower_update(builder, name + "/accumulate", model.accumulate, model.accumulate_outputs,
                     program.epilogues["accumulate"]);
    }
    metrics_program(plan, model, name);
  }

  /// A metric's kernel adds to its state: a rank's own sum over the axes that split the rows. Before the state's value
  /// is made.
  static void place_metrics(ProgramBuilder& builder, GraphLowering& lowering, const graph::Model& model) {
    for (const auto& output : model.outputs) {
      if (output.kind != graph::GraphOutput::Kind::kMetric) continue;
      for (auto& s : builder.plan().state)
        if (s.variable.path == output.name) s.layout = lowering.result_layout(output.node);
      lowering.place_result(output.node, builder.state_value(output.name));
    }
  }

  /// Inputs lie in the staging pool, a micro-batch's part after the other; the body sees the part in hand.
  static void bind_sources(ProgramBuilder& builder, GraphLowering& lowering, const graph::Graph& graph) {
    auto& program = builder.program();
    for (const auto& node : graph.nodes()) {
      if (node.kind == graph::NodeKind::kVariable) lowering.bind(node.id, builder.state_value(node.name));
      if (node.kind != graph::NodeKind::kInput) continue;
      const auto layout = lowering.result_layout(node.id);
      auto whole_shape = node.shape();
      whole_shape.insert(whole_shape.begin(), program.micro_batches);
      auto whole_layout = layout;
      whole_layout.dims.insert(whole_layout.dims.begin(), std::vector<mesh::Axis>{});
      const int whole = builder.add_value(node.name, whole_shape, node.dtype(), whole_layout, Pool::kStaging);
      const int part = builder.add_view(whole, node.name, node.shape(), node.dtype(), layout);
      builder.value(part).micro_stride = program.micro_batches > 1 ? builder.value(part).bytes : 0;
      program.inputs.push_back(whole);
      program.batch_rows = std::max(program.batch_rows, node.shape().empty() ? 1 : node.shape()[0]);
      lowering.bind(node.id, part);
    }
    program.batch_rows *= program.micro_batches;
  }

  /// The loss is summed over the micro-batches and all ranks; predictions are no longer partial.
  static void take_outputs(ProgramBuilder& builder, const GraphLowering& lowering, const graph::Model& model,
                           const std::string& name, Section& end) {
    auto& program = builder.program();
    for (const auto& output : model.outputs) {
      if (output.kind == graph::GraphOutput::Kind::kMetric) continue;
      if (output.kind == graph::GraphOutput::Kind::kPrediction && name != "predict") continue;
      int value = lowering.result(output.node);
      const auto v = builder.value(value);
      builder.place = {&program.body, Phase::kForward, model.main.node(output.node).layer, -1};
      if (program.micro_batches > 1) {
        const int sum = builder.add_value(output.name, v.shape, v.dtype, v.layout);
        builder.place.section = &program.prologue;
        builder.kernel("fill", {}, {sum}, {{"value", 0.0}});
        builder.place.section = &program.body;
        builder.kernel("add_n", {sum, value}, {sum});
        value = sum;
      }
      auto whole = v.layout;
      whole.partial.clear();
      builder.place.section = &end;
      if (!v.layout.partial.empty()) {
        if (program.micro_batches == 1) {  // the graph may still read the local sum
          const int copy = builder.add_value(output.name, v.shape, v.dtype, v.layout);
          builder.kernel("copy", {value}, {copy});
          value = copy;
        }
        value =
            builder.all_reduce(value, v.layout.partial, graph::ReduceKind::kSum, whole, output.name + " of all ranks");
      }
      program.outputs.push_back({output.kind, output.name, value});
    }
  }

  void lower_update(ProgramBuilder& builder, const std::string& key, const graph::Graph& graph,
                    const std::vector<graph::GraphOutput>& outputs, Section& section) {
    if (graph.nodes().empty()) return;
    auto& program = builder.program();
    GraphLowering::Options options;
    options.phase = Phase::kUpdate;
    options.suffix = key.substr(key.find('/'));
    GraphLowering lowering(builder, main_inputs_.at(key), main_.at(key), options);
    for (const auto& node : graph.nodes()) {
      if (node.kind != graph::NodeKind::kVariable) continue;
      const bool gradient = node.variable->role == graph::VariableRole::kGradient;
      lowering.bind(node.id, gradient ? program.gradients.at(node.variable->weight) : builder.state_value(node.name));
    }
    for (const auto& output : outputs)
      if (output.kind == graph::GraphOutput::Kind::kAssign)
        lowering.place_result(output.node, builder.state_value(output.name));
    lowering.forward(&section, &section);
    for (const auto& output : outputs) finish_update_output(builder, lowering, graph, output, section);
  }

  /// An updated weight is carried from its slots' layout to its own; what is reported is summed over the ranks.
  void finish_update_output(ProgramBuilder& builder, const GraphLowering& lowering, const graph::Graph& graph,
                            const graph::GraphOutput& output, Section& section) const {
    int value = lowering.result(output.node);
    builder.place = {&section, Phase::kUpdate, graph.node(output.node).layer, -1};
    if (output.kind == graph::GraphOutput::Kind::kAssign) {
      const int state = builder.state_value(output.name);
      if (value == state) return;
      const auto moves =
          reshard(builder.mesh(), builder.value(value).layout, builder.value(state).layout, false, false);
      TESSERA_CHECK(moves.has_value(), "the update of {} can't reach its layout", output.name);
      value = builder.apply(value, *moves, "the updated " + output.name);
      builder.kernel("copy", {value}, {state});
      return;
    }
    auto whole = builder.value(value).layout;
    if (!whole.partial.empty()) {
      const auto axes = whole.partial;
      whole.partial.clear();
      value = builder.all_reduce(value, axes, graph::ReduceKind::kSum, whole, output.name + " of all ranks");
    }
    auto& outputs = builder.program().outputs;
    const auto known =
        std::find_if(outputs.begin(), outputs.end(), [&](const ProgramOutput& o) { return o.name == output.name; });
    if (known == outputs.end()) {
      outputs.push_back({output.kind, output.name, value});
    } else if (known->value != value) {  // both epilogues hand out one value
      builder.kernel("copy", {value}, {known->value});
    }
  }

  /// Metric states are sums of a rank's own rows; this hands out the sums of all.
  static void metrics_program(Plan& plan, const graph::Model& model, const std::string& name) {
    const auto is_metric = [](const graph::GraphOutput& o) { return o.kind == graph::GraphOutput::Kind::kMetric; };
    if (std::none_of(model.outputs.begin(), model.outputs.end(), is_metric)) return;
    auto& program = plan.programs[name + ".metrics"];
    program.name = name + ".metrics";
    ProgramBuilder builder(plan, program);
    builder.place = {&program.body, Phase::kForward, "metrics", -1};
    for (const auto& output : model.outputs) {
      if (!is_metric(output)) continue;
      const int state = builder.state_value(output.name);
      const auto v = builder.value(state);
      int value = builder.add_value(output.name, v.shape, v.dtype, v.layout);
      builder.kernel("copy", {state}, {value});
      if (!v.layout.partial.empty())
        value = builder.all_reduce(value, v.layout.partial, graph::ReduceKind::kSum, mesh::replicated(v.shape.size()),
                                   output.name + " of all ranks");
      program.outputs.push_back({output.kind, output.name, value});
    }
  }

  const PlanRequest& request_;
  std::map<std::string, SolverInput::SourceLayouts> weights_;
  std::vector<mesh::Axis> activation_order_, variable_order_;
  std::map<std::string, Assignment> main_;  // by program, and program/epilogue
  std::map<std::string, SolverInput> main_inputs_;
};

}  // namespace

Plan make_plan(const PlanRequest& request) {
  TESSERA_CHECK(!request.models.empty(), "no program to plan");
  return Planner(request).run();
}

std::int64_t device_bytes(const Plan& plan) {
  return std::accumulate(std::begin(plan.pool_bytes), std::end(plan.pool_bytes), std::int64_t{0}) -
         plan.pool_bytes[static_cast<int>(Pool::kStaging)];
}

}  // namespace tessera::partition
