#include "partition/plan.h"

#include <algorithm>
#include <numeric>

#include "mesh/layout.h"
#include "partition/accesses.h"
#include "partition/explain.h"
#include "partition/layouts.h"
#include "partition/memory_limit.h"
#include "partition/model_lowering.h"
#include "partition/passes.h"
#include "partition/program_builder.h"

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
    if (request_.explain) explain_edges(plan, inputs_, assignments_);
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
      pin_layer_outputs(input, *request_.distribution, model->layer_outputs);
      assignments_[name] = solve(input);
      inputs_[name] = std::move(input);
      solve_update(name + "/apply", model->update, model->update_outputs);
      solve_update(name + "/accumulate", model->accumulate, model->accumulate_outputs);
    }
  }

  void solve_update(const std::string& name, const graph::Graph& graph,
                    const std::vector<graph::GraphOutput>& outputs) {
    if (graph.nodes().empty()) return;
    auto input = solver_input(graph, false);
    set_update_sources(input, weights_, outputs);
    assignments_[name] = solve(input);
    inputs_[name] = std::move(input);
  }

  /// Solves the training step again within the limit, with the real peak of each candidate.
  Plan fit(std::int64_t limit) {
    const std::string name = request_.models.front().first;
    const auto peak = [&](const Assignment& candidate) {
      assignments_[name] = candidate;
      return device_bytes(assemble());
    };
    const auto result = solve_within(inputs_.at(name), limit, peak);
    assignments_[name] = result.assignment;
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
      auto placement = replicated_placement();
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
    for (const auto& [name, model] : request_.models) {
      const auto micro_batches = name == "train" ? request_.micro_batches : 1;
      lower_model(plan, name, *model, inputs_, assignments_, {micro_batches, request_.distribution->zero_stage >= 2});
    }
    for (auto& [name, program] : plan.programs) run_passes(plan, program);
    lay_out_memory(plan);
    const auto& first = assignments_.at(request_.models.front().first);
    plan.warnings = first.warnings;
    plan.solver = first.how;
    return plan;
  }

  void run_passes(const Plan& plan, Program& program) const {
    fuse_kernels(program);
    if (request_.squares_in_updates) fuse_gradient_norm(program);
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
    if (request_.uploads) plan.pool_bytes[static_cast<int>(Pool::kUploads)] = most.staging;
    for (auto& [name, program] : plan.programs) {
      program.prefetch_offset = most.staging;
      most.staging += program.prefetch_bytes = prefetch_bytes(program);
    }
    if (request_.uploads) {
      plan.exchange_offset = most.comm;
      most.comm += plan.exchange_bytes = exchange_bytes(plan);
    }
    plan.pool_bytes[static_cast<int>(Pool::kState)] = state;
    plan.pool_bytes[static_cast<int>(Pool::kArena)] = most.arena;
    plan.pool_bytes[static_cast<int>(Pool::kComm)] = most.comm;
    plan.pool_bytes[static_cast<int>(Pool::kStaging)] = most.staging;
    plan.pool_bytes[static_cast<int>(Pool::kScratch)] = scratch_bytes(plan);
    if (request_.snapshot) plan.pool_bytes[static_cast<int>(Pool::kSnapshot)] = snapshot_bytes(plan);
  }

  /// Loaders of several programs are in use at once: each has memory of its own.
  std::int64_t prefetch_bytes(const Program& program) const {
    if (request_.loader_bytes == 0 || program.inputs.empty()) return 0;
    auto bytes = aligned(request_.loader_bytes);
    for (const int input : program.inputs) bytes += aligned(program.values[static_cast<std::size_t>(input)].bytes);
    return bytes;
  }

  /// Replicas divide what they hold; the sums of a metric are every rank's own.
  static std::int64_t snapshot_bytes(const Plan& plan) {
    std::int64_t bytes = 0;
    for (const auto& s : plan.state)
      bytes += s.variable.role == graph::VariableRole::kMetric
                   ? aligned(s.bytes)
                   : aligned(mesh::largest_share(s.layout, plan.mesh, s.shape) * size_of(s.dtype));
    return bytes;
  }

  /// A rank packs what it has once at most, and what it gets.
  static std::int64_t exchange_bytes(Plan& plan) {
    std::int64_t most = 0;
    for (auto& [name, program] : plan.programs)
      for (const auto* section : sections_of(program))
        for (const auto& instruction : section->instructions)
          if (const auto* call = std::get_if<CollectiveCall>(&instruction.what);
              call != nullptr && call->kind == CollectiveKind::kBoxExchange)
            for (const auto& segment : call->segments)
              most = std::max(most, program.values[static_cast<std::size_t>(segment.in)].bytes +
                                        program.values[static_cast<std::size_t>(segment.out)].bytes);
    return aligned(most);
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

  const PlanRequest& request_;
  std::map<std::string, SolverInput::SourceLayouts> weights_;
  std::vector<mesh::Axis> activation_order_, variable_order_;
  // By program, and program/epilogue: what the solver was asked, and its answer.
  std::map<std::string, SolverInput> inputs_;
  std::map<std::string, Assignment> assignments_;
};

}  // namespace

Plan make_plan(const PlanRequest& request) {
  TESSERA_CHECK(!request.models.empty(), "no program to plan");
  return Planner(request).run();
}

std::vector<Pool> pools_of(const Plan& plan) {
  std::vector<Pool> pools;
  for (int p = 0; p < kPoolCount; ++p)
    if (const auto pool = static_cast<Pool>(p);
        (pool != Pool::kUploads && pool != Pool::kSnapshot) || plan.pool_bytes[p] > 0)
      pools.push_back(pool);
  return pools;
}

std::int64_t device_bytes(const Plan& plan) {
  return std::accumulate(std::begin(plan.pool_bytes), std::end(plan.pool_bytes), std::int64_t{0}) -
         plan.pool_bytes[static_cast<int>(Pool::kStaging)] - plan.pool_bytes[static_cast<int>(Pool::kSnapshot)];
}

}  // namespace tessera::partition
