#include "train/planning.h"

#include <numeric>
#include <set>

#include "core/placed.h"
#include "data/loader.h"
#include "layers/build.h"
#include "runtime/scratch.h"

namespace tessera::train {
namespace {

layers::Mode mode_of(const std::string& program) {
  if (program == "train") return layers::Mode::kTrain;
  if (program == "evaluate") return layers::Mode::kEvaluate;
  TESSERA_CHECK(program == "predict", "no program '{}'", program);
  return layers::Mode::kPredict;
}

/// Whether a program's graph takes sample weights: where the data that it may run on have them. Rows without count
/// once.
bool has_sample_weight(const config::Spec& spec, const std::string& program) {
  for (const auto& [on, data] : spec.data)
    if ((program == "evaluate" || on == "train") && data.npy.contains("sample_weight")) return true;
  return false;
}

/// Layout rules that match nothing: an error, or the warnings that `unmatched_rules: warn` asks for.
std::vector<std::string> unmatched_rules(const config::Spec& spec, const Planning& planning) {
  std::set<std::string> weights;
  for (const auto& [program, model] : planning.models)
    for (const auto& node : model.main.nodes())
      if (node.variable && node.variable->role == graph::VariableRole::kWeight) weights.insert(node.name);
  std::vector<std::string> layers, inputs;
  for (const auto& layer : spec.model.layers) layers.push_back(layer.name);
  for (const auto& input : spec.model.inputs) inputs.push_back(input.name);
  inputs.insert(inputs.end(), {"y", "sample_weight"});
  return mesh::check_rules(planning.distribution, {weights.begin(), weights.end()}, layers, inputs);
}

}  // namespace

partition::Hardware hardware_of(const config::Spec& spec) {
  return placed(spec.hardware_pos,
                [&] { return partition::load_hardware(spec.hardware.empty() ? "cpu" : spec.hardware); });
}

device::DeviceKind device_of(const config::Spec& spec, const partition::Hardware& hardware) {
  const bool gpu = spec.device == "cuda" || (spec.device == "auto" && hardware.gpu);
  return gpu ? device::DeviceKind::kCuda : device::DeviceKind::kCpu;
}

std::vector<std::string> possible_programs(const config::Spec& spec) {
  if (!spec.compile.present) return {"predict"};
  return {"train", "evaluate", "predict"};
}

std::vector<std::string> training_programs(const config::Spec& spec) {
  if (!spec.compile.present) return {"predict"};
  if (!spec.data.contains("validation")) return {"train"};
  return {"train", "evaluate"};
}

std::int64_t padded_rows(const config::Spec& spec, const mesh::Distribution& distribution, std::int64_t micro_batches) {
  auto shards = distribution.batch_shards();
  for (const auto& [name, rule] : distribution.data_layout_map)
    if (!rule.dims.empty()) shards = std::lcm(shards, distribution.mesh.size(rule.dims[0]));
  const auto unit = shards * micro_batches;
  return (spec.fit.batch_size + unit - 1) / unit * unit;
}

/// "cuda (device: cuda; products in tensorfloat32; steps replayed as CUDA graphs)"
std::string device_line(const config::Spec& spec, device::DeviceKind kind, const std::string& why) {
  auto line = fmt::format("{} ({}", to_string(kind), why);
  if (kind == device::DeviceKind::kCuda) {
    if (spec.matmul_precision == config::Spec::MatmulPrecision::kTensorFloat32) line += "; products in tensorfloat32";
    if (spec.cuda_graphs && spec.fit.skip_non_finite == 0) line += "; steps replayed as CUDA graphs";
  }
  return line + ")";
}

Planning plan_run(const config::Spec& spec, std::int64_t ranks, const PlanningOptions& options) {
  return plan_run(spec, mesh::make_distribution(spec.distribution, ranks), options);
}

Planning plan_run(const config::Spec& spec, const mesh::Distribution& distribution, const PlanningOptions& options) {
  Planning planning;
  planning.distribution = distribution;
  const auto micro_batches = spec.distribution.micro_batches;
  planning.batch_rows = padded_rows(spec, distribution, micro_batches);

  partition::PlanRequest request;
  request.distribution = &planning.distribution;
  request.hardware = spec.hardware.empty() && !options.hardware.empty() ? partition::load_hardware(options.hardware)
                                                                        : hardware_of(spec);
  if (spec.hardware.empty()) request.hardware.memory_bytes = 0;
  request.micro_batches = micro_batches;
  request.explain = options.explain;
  request.memory_limit = options.memory_limit;
  const auto kind = options.device.value_or(device_of(spec, request.hardware));
  request.snapshot = spec.checkpoint.present &&
                     std::find(options.programs.begin(), options.programs.end(), "train") != options.programs.end();
  request.uploads = kind == device::DeviceKind::kCuda;
  request.squares_in_updates = kind == device::DeviceKind::kCpu;
  request.scratch = runtime::scratch_on(kind);
  request.loader_bytes = data::kLoaderBytes;
  for (const auto& program : options.programs) {
    const auto mode = mode_of(program);
    const auto parts = mode == layers::Mode::kTrain ? micro_batches : 1;
    planning.models[program] = layers::build(
        spec,
        {mode, planning.batch_rows / parts, parts, mode != layers::Mode::kPredict && has_sample_weight(spec, program)});
    request.models.emplace_back(program, &planning.models[program]);
  }
  const auto unmatched = unmatched_rules(spec, planning);
  planning.plan = partition::make_plan(request);
  const auto why = options.device          ? options.why_device
                   : spec.device == "auto" ? "auto: as the hardware profile " + request.hardware.name
                                           : "device: " + spec.device;
  planning.plan.device = device_line(spec, kind, why);
  planning.plan.warnings.insert(planning.plan.warnings.begin(), unmatched.begin(), unmatched.end());
  return planning;
}

std::int64_t planned_bytes(const partition::Plan& plan) {
  return std::accumulate(std::begin(plan.pool_bytes), std::end(plan.pool_bytes), std::int64_t{0});
}

}  // namespace tessera::train
