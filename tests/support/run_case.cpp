#include "support/run_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "config/spec.h"
#include "core/philox.h"
#include "device/cuda.h"
#include "device/device.h"
#include "layers/build.h"
#include "runtime/executor.h"
#include "runtime/scratch.h"

namespace tessera::test {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

/// Calls visit(index in the local part, global index in each dimension) for all elements of a box.
void for_each_index(const Box& box, const std::function<void(std::int64_t, const std::vector<std::int64_t>&)>& visit) {
  const auto count = elements(box.size);
  auto index = box.start;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(i, index);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < box.start[d] + box.size[d]) break;
      index[d] = box.start[d];
    }
  }
}

/// The value of an input at a row and a place in the row; depends on no mesh. A row's offset keeps shards from being
/// alike.
double input_value(const Case& given, const std::string& name, DType dtype, std::int64_t row, std::int64_t place) {
  const auto bits = philox_bits(philox_key(3, "data", name), static_cast<std::uint64_t>(row * 1000 + place), 0);
  if (!is_float(dtype))
    return static_cast<double>(bits % static_cast<std::uint64_t>(std::max<std::int64_t>(given.classes, 1)));
  if (name == "sample_weight") return 0.25 + uniform_01(bits);
  if (name == "y") return uniform_01(bits);
  return 2 * uniform_01(bits) - 1 + 0.1 * std::sin(static_cast<double>(row));
}

void fill_input(const Prepared& prepared, runtime::Executor& executor, const std::string& name,
                const std::vector<std::int64_t>& coordinates) {
  const auto& value = executor.input_value("train", name);
  const auto box = mesh::owned(value.layout, prepared.plan.mesh, coordinates, value.shape).front();
  auto* data = executor.input("train", name);
  const auto micro_rows = value.shape[1];
  for_each_index(box, [&](std::int64_t i, const std::vector<std::int64_t>& index) {
    const auto row = std::min(index[0] * micro_rows + index[1], prepared.given.real_rows - 1);
    std::int64_t place = 0;
    for (std::size_t d = 2; d < index.size(); ++d) place = place * value.shape[d] + index[d];
    const double x = input_value(prepared.given, name, value.dtype, row, place);
    if (value.dtype == DType::kI32)
      static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(x);
    else
      static_cast<float*>(data)[i] = static_cast<float>(x);
  });
}

}  // namespace

void merge(std::vector<float>& global, const std::vector<float>& local, const Box& box, const Shape& shape,
           const std::string& name) {
  if (global.empty()) global.assign(static_cast<std::size_t>(elements(shape)), std::nanf(""));
  const auto strides = strides_of(shape);
  for_each_index(box, [&](std::int64_t i, const std::vector<std::int64_t>& index) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
    auto& to = global[static_cast<std::size_t>(at)];
    const float from = local[static_cast<std::size_t>(i)];
    if (!std::isnan(to) && std::memcmp(&to, &from, sizeof to) != 0)
      fail(ExitCode::kInternal, "copies of {} differ at {}: {} and {}", name, at, to, from);
    to = from;
  });
}

namespace {

comm::Counter difference(const comm::Counter& a, const comm::Counter& b) {
  return {a.calls - b.calls, a.bytes - b.bytes};
}

comm::Counters difference(const comm::Counters& a, const comm::Counters& b) {
  return {difference(a.all_reduce, b.all_reduce), difference(a.reduce_scatter, b.reduce_scatter),
          difference(a.all_gather, b.all_gather), difference(a.all_to_all, b.all_to_all),
          difference(a.box_exchange, b.box_exchange)};
}

}  // namespace

Prepared prepare(const Case& given, const std::string& yaml, int ranks, const std::vector<std::string>& watched,
                 device::DeviceKind kind) {
  const auto spec = config::parse_spec(yaml, "case.yaml", {});
  Prepared prepared{given, mesh::make_distribution(spec.distribution, ranks), {}};
  layers::BuildOptions options;
  options.mode = layers::Mode::kTrain;
  options.micro_batches = spec.distribution.micro_batches;
  options.sample_weight = given.sample_weight;
  options.rows =
      round_up(given.batch, prepared.distribution.batch_shards() * options.micro_batches) / options.micro_batches;
  auto model = layers::build(spec, options);
  for (const auto& name : watched) {
    const int node = model.main.find(name);
    TESSERA_CHECK(node >= 0, "the model has no node '{}'", name);
    model.outputs.push_back({graph::GraphOutput::Kind::kReport, name, node});
  }
  partition::PlanRequest request;
  request.distribution = &prepared.distribution;
  const bool on_gpu = kind == device::DeviceKind::kCuda;
  request.hardware = partition::load_hardware(on_gpu ? "h100" : "cpu");
  request.hardware.memory_bytes = 0;
  request.micro_batches = options.micro_batches;
  request.models = {{"train", &model}};
  request.uploads = on_gpu;
  request.squares_in_updates = !on_gpu;
  request.scratch = runtime::scratch_on(kind);
  prepared.plan = partition::make_plan(request);
  for (const auto& [name, program] : prepared.plan.programs)
    if (const auto faults = partition::check(prepared.plan, program); !faults.empty())
      fail(ExitCode::kInternal, "program {}: {} ({} faults)", name, faults.front(), faults.size());
  return prepared;
}

namespace {

void set_state(runtime::Executor& executor, const std::string& path, const std::vector<float>& global,
               const std::vector<std::int64_t>& coordinates) {
  const auto& state = executor.state(path);
  const auto box = mesh::owned(state.layout, executor.plan().mesh, coordinates, state.shape).front();
  const auto strides = strides_of(state.shape);
  std::vector<float> local(static_cast<std::size_t>(elements(state.local)));
  for_each_index(box, [&](std::int64_t i, const std::vector<std::int64_t>& index) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
    local[static_cast<std::size_t>(i)] = global.at(static_cast<std::size_t>(at));
  });
  executor.write_state(path, local.data());
}

/// What one rank has of an Outcome.
struct Part {
  std::vector<double> losses, norms;
  Tensors gradients, weights;  // local
  std::vector<Tensors> watched;
  comm::Counters counted;
  std::int64_t gpu_bytes = 0;
};

/// What the device can still hand out, where it is a GPU.
std::int64_t free_bytes(const device::Device& device) {
  if (device.kind() != device::DeviceKind::kCuda) return 0;
  return device::cuda_backend().memory(std::stoi(device.name().substr(std::string("cuda:").size()))).free_bytes;
}

Part train(const Prepared& prepared, int steps, comm::World& world, device::Device& device, const Tensors& start) {
  using Kind = graph::GraphOutput::Kind;
  const auto& plan = prepared.plan;
  const auto& program = plan.programs.at("train");
  Part part;
  const auto free = free_bytes(device);
  runtime::Executor executor(plan, device, world, {});
  part.gpu_bytes = free - free_bytes(device);
  executor.initialise_state();
  const auto coordinates = plan.mesh.coordinates(world.rank());
  for (const auto& [path, values] : start) set_state(executor, path, values, coordinates);
  for (const int input : program.inputs)
    fill_input(prepared, executor, program.values[static_cast<std::size_t>(input)].name, coordinates);
  const auto before = world.counters();
  for (int step = 1; step <= steps; ++step) {
    device::StepParams params;
    params.step = step;
    params.iteration = step - 1;
    params.learning_rate = 0.05;
    params.real_rows = prepared.given.real_rows;
    executor.run("train", "apply", params);
    auto& watched = part.watched.emplace_back();
    for (const auto& output : program.outputs) {
      const auto& v = program.values[static_cast<std::size_t>(output.value)];
      if (output.kind == Kind::kLoss) {
        float loss = 0;
        executor.read_output("train", output.name, &loss);
        part.losses.push_back(loss);
      } else if (output.name == "grad_norm_squared") {
        double squared = 0;
        executor.read_output("train", output.name, &squared);
        part.norms.push_back(std::sqrt(squared));
      } else if (output.kind == Kind::kReport) {
        auto& local = watched[output.name];
        local.resize(static_cast<std::size_t>(elements(v.local)));
        executor.read_output("train", output.name, local.data());
      }
    }
    if (step > 1) continue;
    for (const auto& [path, value] : program.gradients) {
      auto& local = part.gradients[path];
      local.resize(static_cast<std::size_t>(elements(program.values[static_cast<std::size_t>(value)].local)));
      executor.read_gradient("train", path, local.data());
    }
  }
  part.counted = difference(world.counters(), before);
  for (const auto& s : plan.state) {
    if (s.variable.role != graph::VariableRole::kWeight) continue;
    auto& local = part.weights[s.variable.path];
    local.resize(static_cast<std::size_t>(elements(s.local)));
    executor.read_state(s.variable.path, local.data());
  }
  return part;
}

/// Takes the scalars of the steps over, or compares them with what another rank has.
void note(std::vector<double>& of_steps, const std::vector<double>& of_rank, const std::string& name) {
  if (of_steps.empty()) of_steps = of_rank;
  for (std::size_t s = 0; s < of_rank.size(); ++s)
    if (std::memcmp(&of_steps.at(s), &of_rank[s], sizeof(double)) != 0)
      fail(ExitCode::kInternal, "the {} of step {} differs: {} and {}", name, s + 1, of_steps[s], of_rank[s]);
}

Outcome joined(const partition::Plan& plan, const std::vector<Part>& parts) {
  const auto& program = plan.programs.at("train");
  Outcome outcome;
  outcome.watched.resize(parts[0].watched.size());
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const auto& part = parts[rank];
    const auto coordinates = plan.mesh.coordinates(static_cast<std::int64_t>(rank));
    const auto add = [&](Tensors& to, const std::string& name, const std::vector<float>& local,
                         const mesh::Layout& layout, const Shape& shape, const std::string& what) {
      merge(to[name], local, mesh::owned(layout, plan.mesh, coordinates, shape).front(), shape, what + name);
    };
    note(outcome.losses, part.losses, "loss");
    note(outcome.norms, part.norms, "gradient norm");
    for (const auto& output : program.outputs) {
      const auto& v = program.values[static_cast<std::size_t>(output.value)];
      for (std::size_t step = 0; step < part.watched.size(); ++step)
        if (const auto it = part.watched[step].find(output.name); it != part.watched[step].end())
          add(outcome.watched[step], output.name, it->second, v.layout, v.shape, "");
    }
    for (const auto& [path, local] : part.gradients) {  // none without a step
      const auto& v = program.values[static_cast<std::size_t>(program.gradients.at(path))];
      add(outcome.gradients, path, local, v.layout, v.shape, "grad ");
    }
    for (const auto& s : plan.state)
      if (s.variable.role == graph::VariableRole::kWeight)
        add(outcome.weights, s.variable.path, part.weights.at(s.variable.path), s.layout, s.shape, "");
  }
  outcome.counted = parts[0].counted;
  outcome.gpu_bytes = parts[0].gpu_bytes;
  return outcome;
}

/// visit(begin, bytes) of all numbers, of the same order and sizes on all ranks.
template <typename Visit>
void for_each_number(Part& part, Visit visit) {
  const auto visit_all = [&](auto& numbers) { visit(numbers.data(), numbers.size() * sizeof numbers[0]); };
  visit_all(part.losses);
  visit_all(part.norms);
  for (auto* tensors : {&part.gradients, &part.weights})
    for (auto& [name, local] : *tensors) visit_all(local);
  for (auto& of_step : part.watched)
    for (auto& [name, local] : of_step) visit_all(local);
}

}  // namespace

Outcome run(const Prepared& prepared, int steps, const RunOptions& options) {
  std::vector<Part> parts(static_cast<std::size_t>(prepared.plan.mesh.ranks()));
  comm::run_on_threads(static_cast<int>(parts.size()), [&](comm::World& threads) {
    const auto wrapped = options.wrap ? options.wrap(threads) : nullptr;
    const auto device = device::make_cpu_device({});
    parts[static_cast<std::size_t>(threads.rank())] =
        train(prepared, steps, wrapped ? *wrapped : threads, *device, options.start);
  });
  return joined(prepared.plan, parts);
}

Outcome run(const Prepared& prepared, int steps, comm::World& world, device::Device& device) {
  auto part = train(prepared, steps, world, device, {});
  std::string text;
  for_each_number(
      part, [&](const void* numbers, std::size_t bytes) { text.append(static_cast<const char*>(numbers), bytes); });
  std::vector<Part> parts;
  for (const auto& of_rank : world.gather(text)) {
    TESSERA_CHECK(of_rank.size() == text.size(), "ranks have results of {} and {} bytes", text.size(), of_rank.size());
    const auto* from = of_rank.data();
    for_each_number(parts.emplace_back(part), [&](void* numbers, std::size_t bytes) {
      std::memcpy(numbers, from, bytes);
      from += bytes;
    });
  }
  return joined(prepared.plan, parts);
}

Difference compare(const Outcome& one, const Outcome& other) {
  Difference difference;
  const auto keep = [&](double d, const std::string& where) {
    if (d > difference.worst || std::isnan(d)) difference = {std::isnan(d) ? INFINITY : d, where};
  };
  for (std::size_t s = 0; s < one.losses.size(); ++s)
    keep(std::abs(one.losses[s] - other.losses[s]) / std::max(std::abs(one.losses[s]), 1e-3),
         fmt::format("loss of step {}: {} and {}", s + 1, one.losses[s], other.losses[s]));
  for (std::size_t s = 0; s < one.norms.size(); ++s)
    keep(std::abs(one.norms[s] - other.norms[s]) / std::max(one.norms[s], 1e-4),
         fmt::format("gradient norm of step {}: {} and {}", s + 1, one.norms[s], other.norms[s]));
  const auto tensors = [&](const Tensors& a, const Tensors& b, const std::string& what) {
    for (const auto& [name, x] : a) {
      const auto& y = b.at(name);
      double largest = 1e-4;  // below that a gradient is rounding noise
      for (const auto v : x) largest = std::max(largest, std::abs(static_cast<double>(v)));
      for (std::size_t i = 0; i < x.size(); ++i)
        keep(std::abs(static_cast<double>(x[i]) - y[i]) / largest,
             fmt::format("{} {}[{}]: {} and {}", what, name, i, x[i], y[i]));
    }
  };
  tensors(one.gradients, other.gradients, "gradient of");
  tensors(one.weights, other.weights, "weight");
  return difference;
}

}  // namespace tessera::test
