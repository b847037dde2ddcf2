#include "train/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "train/agree.h"
#include "train/feed.h"

namespace tessera::train {
namespace {

/// Of the products' operands, which are the coarsest numbers.
double epsilon_of(const Session& session) {
  const bool coarse = session.device().kind == device::DeviceKind::kCuda &&
                      session.spec().matmul_precision == config::Spec::MatmulPrecision::kTensorFloat32;
  return coarse ? 0x1p-10 : std::numeric_limits<float>::epsilon();
}

using Tensor = std::vector<double>;

double largest(const Tensor& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::isfinite(v) ? std::abs(v) : INFINITY);
  return most;
}

/// Adds a rank's part to its place in the whole tensor.
void add_box(Tensor& whole, const Shape& shape, const Box& box, const std::vector<float>& part) {
  const auto strides = strides_of(shape);
  for (std::size_t k = 0; k < part.size(); ++k) {
    auto rest = static_cast<std::int64_t>(k);
    std::int64_t index = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      index += (box.start[d] + rest % box.size[d]) * strides[d];
      rest /= box.size[d];
    }
    whole[static_cast<std::size_t>(index)] += part[k];
  }
}

/// The whole tensor from all ranks' parts, on rank 0; empty elsewhere. Partial sums are added up, replicas are taken
/// once.
Tensor whole_tensor(Session& session, const Shape& shape, const mesh::Layout& layout, const std::vector<float>& own) {
  const auto& mesh = session.plan().mesh;
  const auto parts = session.world().gather({reinterpret_cast<const char*>(own.data()), own.size() * sizeof(float)});
  if (session.world().rank() != 0) return {};
  Tensor whole(static_cast<std::size_t>(elements(shape)), 0.0);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const auto coordinates = mesh.coordinates(static_cast<std::int64_t>(rank));
    auto replica = coordinates;
    for (const auto& dim : layout.dims)
      for (const auto axis : dim) replica[static_cast<std::size_t>(axis)] = 0;
    for (const auto axis : layout.partial) replica[static_cast<std::size_t>(axis)] = 0;
    if (std::any_of(replica.begin(), replica.end(), [](auto c) { return c != 0; })) continue;
    std::vector<float> part(parts[rank].size() / sizeof(float));
    std::memcpy(part.data(), parts[rank].data(), parts[rank].size());
    add_box(whole, shape, mesh::owned(layout, mesh, coordinates, shape).front(), part);
  }
  return whole;
}

Tensor whole_gradient(Session& session, const std::string& path) {
  const auto& program = session.plan().programs.at("train");
  const auto& value = program.values[static_cast<std::size_t>(program.gradients.at(path))];
  std::vector<float> own(static_cast<std::size_t>(value.bytes) / sizeof(float));
  session.executor().read_gradient("train", path, own.data());
  return whole_tensor(session, value.shape, value.layout, own);
}

Tensor whole_weight(Session& session, const std::string& path) {
  const auto& state = session.executor().state(path);
  std::vector<float> own(static_cast<std::size_t>(state.bytes) / sizeof(float));
  session.executor().read_state(path, own.data());
  return whole_tensor(session, state.shape, state.layout, own);
}

/// One of the two runs.
struct Run {
  Session session;
  Feed feed;

  Run(const config::Spec& spec, comm::World& world, const SessionOptions& options)
      : session(spec, world, options),
        feed(session, "train", "train", {.shuffle = spec.fit.shuffle, .steps_per_epoch = spec.fit.steps_per_epoch}) {}

  void fill(std::int64_t step, device::StepParams& params) {
    or_end_job(session.world(), [&] {
      const auto per_epoch = feed.steps(0);
      params.real_rows = feed.fill(step / per_epoch, step % per_epoch);
    });
  }
  void execute(const std::string& epilogue, const device::StepParams& params) {
    or_end_job(session.world(), [&] { session.executor().run("train", epilogue, params); });
  }
};

class Verification {
 public:
  Verification(const config::Spec& spec, comm::World& world, const SessionOptions& options)
      : world_(world), optimizer_(layers::optimizer_info(spec)), mesh_(spec, world, train_only(options)) {
    agree(world, [&] {
      if (world.rank() != 0) return;
      self_ = comm::make_self_world();
      auto single = train_only(options);
      single.single_device = true;
      single_ = std::make_unique<Run>(spec, *self_, single);
    });
    auto longest = mesh_.session.planning().batch_rows;
    for (const auto& state : mesh_.session.plan().state) {
      if (state.variable.role != graph::VariableRole::kWeight || state.dtype != DType::kF32) continue;
      weights_.push_back(state.variable.path);
      for (const auto size : state.shape) longest = std::max(longest, mesh_.session.planning().batch_rows + size);
    }
    rounding_ = 4 * epsilon_of(mesh_.session) * static_cast<double>(longest);
  }

  VerifyResult run(std::int64_t steps) {
    for (std::int64_t step = 0; step < steps; ++step) run_step(step);
    for (const auto& path : weights_) compare_weight(path, steps);
    mesh_.session.executor().check_replicas();
    std::sort(result_.differences.begin(), result_.differences.end(),
              [](const auto& a, const auto& b) { return a.ratio() > b.ratio(); });
    share_result();
    return std::move(result_);
  }

 private:
  static SessionOptions train_only(SessionOptions options) {
    options.programs = {"train"};
    return options;
  }

  void run_step(std::int64_t step) {
    device::StepParams params;
    params.step = step + 1;
    params.iteration = step / optimizer_.accumulation_steps;
    params.learning_rate = optimizer_.learning_rate(step);
    const std::string epilogue = (step + 1) % optimizer_.accumulation_steps == 0 ? "apply" : "accumulate";
    const auto on_both = [&](const auto& what) {
      what(mesh_);
      agree(world_, [&] {
        if (single_) what(*single_);
      });
    };
    on_both([&](Run& run) { run.fill(step, params); });
    on_both([&](Run& run) { run.execute(epilogue, params); });
    compare_loss(step);
    for (const auto& path : weights_)
      if (mesh_.session.plan().programs.at("train").gradients.contains(path)) compare_gradient(path, step, params);
  }

  void compare_loss(std::int64_t step) {
    if (!single_) return;
    const double expected = single_->session.loss("train");
    record({fmt::format("loss of step {}", step + 1), std::abs(mesh_.session.loss("train") - expected),
            rounding_ * static_cast<double>(step + 1) * std::abs(expected)});
  }

  void compare_gradient(const std::string& path, std::int64_t step, const device::StepParams& params) {
    const auto found = whole_gradient(mesh_.session, path);
    if (!single_) return;
    const auto expected = whole_gradient(single_->session, path);
    const double allowed = rounding_ * static_cast<double>(step + 1) * largest(expected);
    double worst = 0;
    auto& drift = drift_.try_emplace(path, expected.size(), 0.0).first->second;
    for (std::size_t k = 0; k < expected.size(); ++k) {
      worst = std::max(worst, difference(found[k], expected[k]));
      const double noise = 8 * allowed / std::max(std::abs(expected[k]), 1e-300);
      drift[k] += params.learning_rate * std::max(allowed, std::min(2.0, noise));
    }
    record({fmt::format("gradient of {} in step {}", path, step + 1), worst, allowed});
  }

  // The element that comes nearest to its bound, or goes farthest beyond it.
  void compare_weight(const std::string& path, std::int64_t steps) {
    const auto found = whole_weight(mesh_.session, path);
    if (!single_) return;
    const auto expected = whole_weight(single_->session, path);
    const double base = rounding_ * largest(expected);
    const auto drift = drift_.find(path);
    Difference worst{fmt::format("{} after {} step{}", path, steps, steps == 1 ? "" : "s"), 0, base};
    for (std::size_t k = 0; k < expected.size(); ++k) {
      const Difference here{worst.what, difference(found[k], expected[k]),
                            base + (drift == drift_.end() ? 0 : drift->second[k])};
      if (here.found > 0 && here.ratio() > worst.ratio()) worst = here;
    }
    record(worst);
  }

  static double difference(double a, double b) {
    const double d = std::abs(a - b);
    return std::isfinite(d) ? d : INFINITY;
  }

  void record(Difference difference) {
    difference.allowed = std::max(difference.allowed, double{std::numeric_limits<float>::min()});
    result_.differences.push_back(std::move(difference));
  }

  void share_result() {
    std::string text;
    for (const auto& d : result_.differences) text += fmt::format("{} {} {}\n", d.found, d.allowed, d.what);
    text = world_.broadcast(text, 0);
    result_.differences.clear();
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      const auto first = text.find(' ', at), second = text.find(' ', first + 1);
      result_.differences.push_back({text.substr(second + 1, end - second - 1), std::stod(text.substr(at, first - at)),
                                     std::stod(text.substr(first + 1, second - first - 1))});
      at = end + 1;
    }
  }

  comm::World& world_;
  layers::OptimizerInfo optimizer_;
  Run mesh_;
  std::unique_ptr<comm::World> self_;  // rank 0 only, as the next one
  std::unique_ptr<Run> single_;
  std::vector<std::string> weights_;
  std::map<std::string, Tensor> drift_;
  double rounding_ = 0;
  VerifyResult result_;
};

}  // namespace

VerifyResult verify(const config::Spec& spec, comm::World& world, const SessionOptions& options, std::int64_t steps) {
  return Verification(spec, world, options).run(steps);
}

}  // namespace tessera::train
