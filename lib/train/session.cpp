#include "train/session.h"

#include <algorithm>

#include "comm/nccl.h"
#include "core/placed.h"
#include "core/text.h"
#include "device/cuda.h"
#include "train/agree.h"
#include "train/launch.h"
#include "train/process_memory.h"
#include "train/weights.h"

namespace tessera::train {
namespace {

std::int64_t least_of(comm::World& world, std::int64_t own) {
  for (const auto& text : world.gather(std::to_string(own))) own = std::min<std::int64_t>(own, std::stoll(text));
  return own;
}

}  // namespace

Session::Session(const config::Spec& spec, comm::World& world, const SessionOptions& options)
    : spec_(spec), world_(world) {
  auto own = options;
  if (own.programs.empty()) own.programs = possible_programs(spec);
  const auto launch = agree_on_launch(world, own.allow_mixed, own.threads);
  choice_ = choose_device(spec, world);
  agree(world, [&] {
    metric_names_ = spec.compile.present ? layers::metric_names(spec) : std::vector<std::string>{};
    planning_ = plan_for(own, 0);
  });
  baseline_bytes_ = resident_bytes();
  if (choice_.kind == device::DeviceKind::kCuda) {
    or_end_job(world, [&] { open_gpu(); });
  } else {
    agree(world, [&] { device_ = device::make_cpu_device(launch.device); });
  }
  // The fastest plan, as long as it fits into what the nodes or their GPUs have free.
  if (const auto limit = least_of(world, free_bytes()); needed_bytes() > limit)
    agree(world, [&] { planning_ = plan_for(own, limit); });
  warnings_ = launch.warnings;
  warnings_.insert(warnings_.end(), plan().warnings.begin(), plan().warnings.end());
  if (spec.cuda_graphs && choice_.kind == device::DeviceKind::kCpu)
    warnings_.push_back(to_string(spec.cuda_graphs_pos) + ": cuda_graphs changes nothing on the CPU");
  if (spec.cuda_graphs && spec.fit.skip_non_finite > 0)
    warnings_.push_back(to_string(spec.cuda_graphs_pos) +
                        ": cuda_graphs changes nothing with fit.skip_non_finite, which looks at gradients in mid-step");

  or_end_job(world, [&] {
    executor_ = std::make_unique<runtime::Executor>(
        plan(), *device_, gpu_world_ ? *gpu_world_ : world_,
        runtime::ExecutorOptions{.comm_thread = launch.comm_thread || own.comm_thread,
                                 .time_limit_s = own.time_limit_s,
                                 .profile = own.profile,
                                 .nan_search = own.nan_search,
                                 .tuning = own.tuning,
                                 .graphs = spec.cuda_graphs});
    if (choice_.kind == device::DeviceKind::kCuda) gpu_baseline_bytes_ = beside_plan();
  });
  executor_->initialise_state();
  if (spec.model.load_weights.empty()) return;
  for (const auto& name : load_weights(world, *executor_, spec.model.load_weights, spec.model.load_weights_pos))
    warnings_.push_back(fmt::format("{} has '{}', which the model has not", spec.model.load_weights, name));
}

// Context and NCCL take memory of the GPU that is no part of the plan: they are there before it is looked at.
void Session::open_gpu() {
  auto options = device::CudaOptions{.index = choice_.index};
  options.matmul_cache = cache_file("cuda_tuning");
  options.tensor_float_32 = spec_.matmul_precision == config::Spec::MatmulPrecision::kTensorFloat32;
  device_ = device::cuda_backend().make_device(options);
  if (world_.size() == 1) return;
  const auto profile = hardware();
  gpu_world_ = comm::nccl_backend().make_world(world_, {.stream = device_->native_stream(device::Stream::kComm),
                                                        .windows = profile.nccl_windows,
                                                        .most_blocks = static_cast<int>(profile.nccl_max_blocks)});
}

std::int64_t Session::beside_plan() const {
  const auto memory = device::cuda_backend().memory(choice_.index);
  return std::max<std::int64_t>(0, memory.total_bytes - memory.free_bytes - partition::device_bytes(plan()));
}

std::int64_t Session::free_bytes() const {
  if (choice_.kind == device::DeviceKind::kCpu) return available_bytes() / world_.local_size();
  constexpr std::int64_t kKeptBack = 256 << 20;  // for what the driver and NCCL take at first use
  return std::max<std::int64_t>(0, device::cuda_backend().memory(choice_.index).free_bytes - kKeptBack);
}

std::int64_t Session::needed_bytes() const {
  return choice_.kind == device::DeviceKind::kCpu ? planned_bytes(plan()) : partition::device_bytes(plan());
}

Planning Session::plan_for(const SessionOptions& options, std::int64_t memory_limit) const {
  const PlanningOptions planning{.programs = options.programs,
                                 .memory_limit = memory_limit,
                                 .device = choice_.kind,
                                 .why_device = choice_.reason,
                                 .hardware = choice_.hardware};
  return options.single_device ? plan_run(spec_, mesh::Distribution{}, planning)
                               : plan_run(spec_, world_.size(), planning);
}

partition::Hardware Session::hardware() const {
  const bool found = spec_.hardware.empty() && !choice_.hardware.empty();
  return found ? partition::load_hardware(choice_.hardware) : hardware_of(spec_);
}

double Session::loss(const std::string& program) const {
  for (const auto& output : plan().programs.at(program).outputs) {
    if (output.kind != graph::GraphOutput::Kind::kLoss) continue;
    float value = 0;
    executor_->read_output(program, output.name, &value);
    return value;
  }
  fail(ExitCode::kInternal, "program {} has no loss", program);
}

std::optional<double> Session::report(const std::string& program, std::string_view name) const {
  const auto& p = plan().programs.at(program);
  for (const auto& output : p.outputs) {
    if (output.kind != graph::GraphOutput::Kind::kReport || output.name != name) continue;
    const auto& value = p.values[static_cast<std::size_t>(output.value)];
    double wide = 0;
    float narrow = 0;
    executor_->read_output(program, output.name, value.dtype == DType::kF64 ? static_cast<void*>(&wide) : &narrow);
    return value.dtype == DType::kF64 ? wide : narrow;
  }
  return std::nullopt;
}

std::vector<const partition::StateBuffer*> Session::metric_states(const std::string& program) const {
  std::vector<const partition::StateBuffer*> states;
  const auto it = plan().programs.find(program + ".metrics");
  if (it == plan().programs.end()) return states;
  for (const auto& value : it->second.values)
    if (value.state >= 0) states.push_back(&plan().state[static_cast<std::size_t>(value.state)]);
  return states;
}

void Session::reset_metrics(const std::string& program) {
  for (const auto* state : metric_states(program)) {
    const std::vector<std::byte> zeros(static_cast<std::size_t>(state->bytes));
    executor_->write_state(state->variable.path, zeros.data());
  }
}

std::vector<std::byte> Session::metric_sums(const std::string& program) const {
  std::vector<std::byte> sums;
  for (const auto* state : metric_states(program)) {
    sums.resize(sums.size() + static_cast<std::size_t>(state->bytes));
    executor_->read_state(state->variable.path, sums.data() + std::ssize(sums) - state->bytes);
  }
  return sums;
}

void Session::set_metric_sums(const std::string& program, const std::vector<std::byte>& sums) {
  const auto* at = sums.data();
  for (const auto* state : metric_states(program)) {
    executor_->write_state(state->variable.path, at);
    at += state->bytes;
  }
}

Logs Session::metrics(const std::string& program) {
  Logs logs;
  const auto it = plan().programs.find(program + ".metrics");
  if (it == plan().programs.end()) return logs;
  const auto& outputs = it->second.outputs;
  TESSERA_CHECK(outputs.size() == metric_names_.size(), "{} metric outputs for {}", outputs.size(),
                join(metric_names_));
  or_end_job(world_, [&] { executor_->run(it->first, "", {}); });
  for (std::size_t m = 0; m < outputs.size(); ++m) {
    double total_and_count[2] = {};
    executor_->read_output(it->first, outputs[m].name, total_and_count);
    logs[metric_names_[m]] = total_and_count[1] == 0 ? 0 : total_and_count[0] / total_and_count[1];
  }
  return logs;
}

EndEvent Session::end_event(std::int64_t steps) const {
  EndEvent event;
  event.steps = steps;
  event.planned_bytes = planned_bytes(plan());
  for (const auto pool : partition::pools_of(plan())) event.pools[to_string(pool)] = executor_->pool_bytes(pool);
  event.baseline_bytes = baseline_bytes_;
  event.gpu_baseline_bytes = gpu_baseline_bytes_;
  event.peak_rss_bytes = peak_resident_bytes();
  event.collectives = (gpu_world_ ? *gpu_world_ : world_).counters();
  return event;
}

}  // namespace tessera::train
