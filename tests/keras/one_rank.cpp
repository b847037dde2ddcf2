#include "keras/one_rank.h"

#include <algorithm>

#include "mesh/distribution.h"
#include "partition/plan.h"
#include "runtime/scratch.h"
#include "support/test_device.h"

namespace tessera::keras {

OneRank::OneRank(const std::vector<std::pair<std::string, const graph::Model*>>& models)
    : world_(comm::make_self_world()), device_(test::make_device()) {
  const auto distribution = mesh::make_distribution({}, 1);
  partition::PlanRequest request;
  request.distribution = &distribution;
  request.hardware = partition::load_hardware("cpu");
  request.hardware.memory_bytes = 0;
  request.models = models;
  request.squares_in_updates = device_->kind() == device::DeviceKind::kCpu;
  request.scratch = runtime::scratch_on(device_->kind());
  request.uploads = device_->asynchronous();
  plan_ = partition::make_plan(request);
  executor_ = std::make_unique<runtime::Executor>(plan_, *device_, *world_, runtime::ExecutorOptions{});
  executor_->initialise_state();
}

void OneRank::set_input(const std::string& name, const std::string& input, const Tensor& tensor) {
  const auto& values = program(name).values;
  const auto& inputs = program(name).inputs;
  const bool known = std::any_of(inputs.begin(), inputs.end(),
                                 [&](int v) { return values[static_cast<std::size_t>(v)].name == input; });
  if (!known) return;
  const auto& value = executor_->input_value(name, input);
  const auto row = tensor.values.size() / static_cast<std::size_t>(tensor.shape[0]);
  auto* data = executor_->input(name, input);
  const auto count = static_cast<std::size_t>(elements(value.local));
  for (std::size_t i = 0; i < count; ++i) {
    const auto from = std::min(i / row, static_cast<std::size_t>(tensor.shape[0]) - 1) * row + i % row;
    if (value.dtype == DType::kI32)
      static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(tensor.values[from]);
    else
      static_cast<float*>(data)[i] = tensor.values[from];
  }
}

void OneRank::set_state(const std::string& path, const Tensor& tensor) {
  executor_->write_state(path, tensor.values.data());
}

void OneRank::run(const std::string& name, const std::string& epilogue, const device::StepParams& params) {
  executor_->run(name, epilogue, params);
}

bool OneRank::has_state(const std::string& path) const {
  return std::any_of(plan_.state.begin(), plan_.state.end(), [&](const auto& s) { return s.variable.path == path; });
}

double OneRank::loss() const { return output("train", "loss").at(0); }

std::vector<float> OneRank::output(const std::string& name, const std::string& output) const {
  for (const auto& o : program(name).outputs) {
    if (o.name != output) continue;
    std::vector<float> values(static_cast<std::size_t>(elements(program(name).values.at(o.value).local)));
    executor_->read_output(name, output, values.data());
    return values;
  }
  fail(ExitCode::kInternal, "program {} has no output {}", name, output);
}

std::vector<float> OneRank::state(const std::string& path) const {
  std::vector<float> values(static_cast<std::size_t>(elements(executor_->state(path).local)));
  executor_->read_state(path, values.data());
  return values;
}

std::vector<float> OneRank::gradient(const std::string& path) const {
  const auto& train = program("train");
  std::vector<float> values(static_cast<std::size_t>(elements(train.values.at(train.gradients.at(path)).local)));
  executor_->read_gradient("train", path, values.data());
  return values;
}

std::pair<double, double> OneRank::metric(const std::string& path) const {
  double sums[2];
  executor_->read_state(path, sums);
  return {sums[0], sums[1]};
}

void OneRank::reset(const std::string& path) {
  const double zeros[2] = {0, 0};
  executor_->write_state(path, zeros);
}

device::StepParams all_rows() {
  device::StepParams params;
  params.step = 1;
  params.real_rows = std::int64_t{1} << 40;
  return params;
}

int add_variable(graph::Graph& graph, const std::string& path, const Shape& shape, bool trained, DType dtype) {
  graph::Variable variable;
  variable.path = path;
  variable.trainable = trained;
  return graph.add_variable(std::move(variable), shape, dtype);
}

}  // namespace tessera::keras
