#include "train/advise.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "core/text.h"
#include "train/agree.h"
#include "train/feed.h"
#include "train/process_memory.h"

namespace tessera::train {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
constexpr int kWarmUpSteps = 3, kMeasuredSteps = 20;

/// The spec with another distribution.
config::Spec with_distribution(const config::Spec& spec, config::DistributionSpec distribution) {
  auto changed = spec;
  distribution.micro_batches = spec.distribution.micro_batches;
  changed.distribution = std::move(distribution);
  return changed;
}

config::Spec data_parallel(const config::Spec& spec) { return with_distribution(spec, {}); }

// Every weight over the batch axis, on its longest dimension that divides; as FSDP.
config::Spec sharded_parameters(const config::Spec& spec, std::int64_t ranks) {
  config::DistributionSpec d;
  d.strategy = config::DistributionSpec::Strategy::kModelParallel;
  d.has_mesh = true;
  d.mesh_shape = {ranks};
  d.axis_names = {"batch"};
  const auto model = layers::build(spec, {layers::Mode::kPredict, spec.fit.batch_size, 1, false});
  for (const auto& node : model.main.nodes()) {
    if (!node.variable || node.variable->role != graph::VariableRole::kWeight) continue;
    const auto& shape = node.shape();
    int best = -1;
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim)
      if (shape[static_cast<std::size_t>(dim)] % ranks == 0 &&
          (best < 0 || shape[static_cast<std::size_t>(dim)] > shape[static_cast<std::size_t>(best)]))
        best = dim;
    if (best < 0) continue;
    config::LayoutSpec rule;
    rule.key = node.name;
    rule.dims.resize(shape.size());
    rule.dims[static_cast<std::size_t>(best)] = {"batch"};
    d.layout_map.push_back(std::move(rule));
  }
  return with_distribution(spec, std::move(d));
}

double communication_ms(const partition::Plan& plan, const partition::Hardware& hardware) {
  const auto& link = plan.mesh.ranks() <= hardware.devices_per_node ? hardware.local : hardware.remote;
  if (link.bytes_per_s <= 0) return 0;
  const auto& program = plan.programs.at("train");
  double seconds = 0;
  const auto add = [&](const partition::Section& section, double times) {
    for (const auto& i : section.instructions)
      if (std::holds_alternative<partition::CollectiveCall>(i.what))
        seconds += times * (link.latency_us * 1e-6 + static_cast<double>(i.moved_bytes) / link.bytes_per_s);
  };
  add(program.prologue, 1);
  add(program.body, static_cast<double>(program.micro_batches));
  if (const auto apply = program.epilogues.find("apply"); apply != program.epilogues.end()) add(apply->second, 1);
  return seconds * 1e3;
}

struct Trial {
  std::string name;
  config::Spec spec;
  std::int64_t ranks;
};

std::vector<Trial> trials(const config::Spec& spec, std::int64_t ranks) {
  std::vector<Trial> all{{"one device", data_parallel(spec), 1}};
  if (ranks > 1) {
    all.push_back({"DataParallel", data_parallel(spec), ranks});
    all.push_back({"sharded parameters", sharded_parameters(spec, ranks), ranks});
  }
  if (spec.distribution.strategy == config::DistributionSpec::Strategy::kModelParallel)
    all.push_back({"this layout", spec, ranks});
  return all;
}

Candidate plan_candidate(const Trial& trial, const partition::Hardware& hardware, std::int64_t limit) {
  PlanningOptions options{.programs = training_programs(trial.spec), .memory_limit = kUnlimited};
  auto planning = plan_run(trial.spec, trial.ranks, options);
  Candidate candidate{.name = trial.name, .ranks = trial.ranks};
  if (planned_bytes(planning.plan) > limit) {  // the fastest plan doesn't fit: a smaller one may
    try {
      options.memory_limit = limit;
      planning = plan_run(trial.spec, trial.ranks, options);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kOutOfMemory) throw;
    }
  }
  candidate.bytes = planned_bytes(planning.plan);
  candidate.fits = candidate.bytes <= limit;
  candidate.step_ms = static_cast<double>(planning.plan.programs.at("train").predicted_fs) * 1e-12;
  const auto communication = communication_ms(planning.plan, hardware);
  candidate.communication = communication / std::max({candidate.step_ms, communication, 1e-12});
  return candidate;
}

/// What the ways before `simplest` need, which don't fit; the first two hold the whole model on every device.
std::string too_large(const Advice& advice, std::size_t simplest) {
  std::vector<std::string> needs;
  for (std::size_t c = 0; c < simplest; ++c)
    needs.push_back(fmt::format("{} needs {}", advice.candidates[c].name,
                                human_bytes(static_cast<double>(advice.candidates[c].bytes))));
  return fmt::format("{}: {}.", simplest > 1 ? "No replica fits" : "Too large", join(needs));
}

double milliseconds(const Candidate& c) { return c.measured_ms.value_or(c.step_ms); }

void add_verdict(Advice& advice) {
  auto& verdict = advice.verdict;
  verdict.clear();
  advice.simplest = -1;
  for (int c = 0; c < static_cast<int>(advice.candidates.size()) && advice.simplest < 0; ++c)
    if (advice.candidates[static_cast<std::size_t>(c)].fits) advice.simplest = c;
  const auto limit = advice.memory_limit == kUnlimited ? std::string("no limit")
                                                       : human_bytes(static_cast<double>(advice.memory_limit));
  const auto before = advice.simplest < 0 ? advice.candidates.size() : static_cast<std::size_t>(advice.simplest);
  if (before > 0) verdict.push_back(too_large(advice, before));
  if (advice.simplest < 0) {
    verdict.push_back(fmt::format("None of these fits into {} a device ({}). Use more ranks, or shard more variables.",
                                  limit, advice.limit_from));
    return;
  }
  const auto& simplest = advice.candidates[static_cast<std::size_t>(advice.simplest)];
  if (advice.simplest == 0)
    verdict.push_back(fmt::format("One device is enough for memory: {} of {} ({}).",
                                  human_bytes(static_cast<double>(simplest.bytes)), limit, advice.limit_from));
  else
    verdict.push_back(fmt::format("{} is the simplest that fits: {} of {} a device ({}).", simplest.name,
                                  human_bytes(static_cast<double>(simplest.bytes)), limit, advice.limit_from));
  const Candidate* best = &simplest;
  for (std::size_t c = static_cast<std::size_t>(advice.simplest) + 1; c < advice.candidates.size(); ++c) {
    const auto& next = advice.candidates[c];
    if (!next.fits) {
      verdict.push_back(fmt::format("{} does not fit.", next.name));
      continue;
    }
    const double gain = 1 - milliseconds(next) / std::max(milliseconds(*best), 1e-12);
    const auto how = next.measured_ms ? "measured" : "predicted";
    if (gain > 0.05) {
      verdict.push_back(fmt::format("With {} over {} ranks a step is {:.1f} times as fast as with {} ({}).", next.name,
                                    next.ranks, 1 / (1 - gain), best->name, how));
      best = &next;
    } else {
      verdict.push_back(fmt::format("With {} a step is no faster than with {} ({}: {:.3g} against {:.3g} ms).",
                                    next.name, best->name, how, milliseconds(next), milliseconds(*best)));
    }
  }
  verdict.push_back(best == &simplest
                        ? fmt::format("Use {}.", best->name)
                        : fmt::format("Begin with {}; {} is the fastest that fits{}.", simplest.name, best->name,
                                      best->measured_ms ? "" : ": measure it first (--measure)"));
}

}  // namespace

Advice advise(const config::Spec& spec, std::int64_t ranks) {
  const auto hardware = hardware_of(spec);
  Advice advice;
  const auto available = available_bytes();
  const bool by_profile = !spec.hardware.empty() && hardware.memory_bytes > 0;
  advice.limit_from = by_profile ? "hardware profile " + hardware.name
                                 : "what this node has free, shared by as many ranks as it has cores";
  const auto limit_of = [&](std::int64_t n) {
    if (by_profile) return hardware.memory_bytes;
    return available / std::min<std::int64_t>(n, std::max(1U, std::thread::hardware_concurrency()));
  };
  for (const auto& trial : trials(spec, ranks)) {
    const auto limit = limit_of(trial.ranks);
    advice.candidates.push_back(plan_candidate(trial, hardware, limit));
    if (advice.candidates.back().fits && advice.memory_limit == 0) advice.memory_limit = limit;
  }
  if (advice.memory_limit == 0) advice.memory_limit = limit_of(ranks);
  add_verdict(advice);
  return advice;
}

namespace {

/// Median of 20 steps after 3, in milliseconds.
double measure(const config::Spec& spec, comm::World& world, SessionOptions options) {
  options.programs = {"train"};
  Session session(spec, world, options);
  Feed feed(session, "train", "train", {.restart = true});
  const auto optimizer = layers::optimizer_info(spec);
  std::vector<double> times;
  or_end_job(world, [&] {
    for (std::int64_t step = 0; step < kWarmUpSteps + kMeasuredSteps; ++step) {
      const auto start = std::chrono::steady_clock::now();
      device::StepParams params;
      params.step = step + 1;
      params.iteration = step;
      params.learning_rate = optimizer.learning_rate(step);
      params.real_rows = feed.fill(0, step % feed.steps(0));
      session.executor().run("train", "apply", params);
      world.any(false);
      if (step >= kWarmUpSteps)
        times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
  });
  std::nth_element(times.begin(), times.begin() + kMeasuredSteps / 2, times.end());
  return times[kMeasuredSteps / 2];
}

}  // namespace

Advice advise_measured(const config::Spec& spec, comm::World& world, const SessionOptions& options) {
  Advice advice;
  agree(world, [&] { advice = advise(spec, world.size()); });
  const auto all = trials(spec, world.size());
  for (std::size_t t = 0; t < all.size(); ++t) {
    auto& candidate = advice.candidates[t];
    // What fits by rank 0's free memory is measured on all: the numbers of the other nodes may differ.
    if (world.broadcast(candidate.fits ? "1" : "0", 0) == "0") continue;
    double own = 0;
    if (all[t].ranks == world.size()) {
      own = measure(all[t].spec, world, options);
    } else {
      agree(world, [&] {
        if (world.rank() != 0) return;
        const auto self = comm::make_self_world();
        own = measure(all[t].spec, *self, options);
      });
    }
    candidate.measured_ms = std::stod(world.broadcast(fmt::format("{}", own), 0));
  }
  add_verdict(advice);
  return advice;
}

}  // namespace tessera::train
