#include "job.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>

#include "comm/mpi/launcher.h"
#include "core/text.h"
#include "report/jsonl.h"
#include "train/agree.h"
#include "train/launch.h"
#include "train/resume.h"

namespace tessera::trainer {

std::unique_ptr<comm::World> open_world(int* argc, char*** argv) {
  return train::launched_by_mpi() ? comm::make_mpi_world(argc, argv) : comm::make_self_world();
}

void check_launcher(const Options& options, comm::World& world) {
  const std::set<std::string> whole{"train", "verify", "evaluate", "predict"};  // the others answer alone too
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  train::agree(world, [&] {
    const auto mismatch = comm::launcher_mismatch(world.size(), whole.contains(options.verb), variable);
    if (!mismatch.empty()) throw Error(ExitCode::kConfig, mismatch);
  });
}

config::Spec load_spec(const Options& options, comm::World& world) {
  std::string text;
  train::agree(world, [&] {
    if (world.rank() == 0) text = config::read_text(options.config);
  });
  text = world.broadcast(text, 0);
  config::Spec spec;
  train::agree(world, [&] { spec = config::parse_spec(text, options.config, options.overrides); });
  return spec;
}

std::string run_folder(const config::Spec& spec) {
  return (std::filesystem::path(spec.output_dir) / spec.name).string();
}

void append_events(const config::Spec& spec, comm::World& world, const std::function<void(train::Observer&)>& events) {
  train::agree(world, [&] {
    if (world.rank() != 0) return;
    const std::filesystem::path folder = run_folder(spec);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) fail(ExitCode::kData, "can't create {}: {}", folder.string(), error.message());
    report::JsonlWriter writer((folder / "metrics.jsonl").string(), true);
    events(writer);
  });
}

std::int64_t planned_ranks(const Options& options, const config::Spec& spec, const comm::World& world) {
  if (options.ranks > 0) return options.ranks;
  if (world.size() > 1) return world.size();
  std::int64_t ranks = 1;
  for (const auto size : spec.distribution.mesh_shape) {
    if (size < 1)
      fail_at(spec.distribution.mesh_pos, ExitCode::kConfig,
              "the mesh has a size of {}; say for how many ranks with --ranks N", size);
    ranks *= size;
  }
  return ranks;
}

config::Spec with_weights(const Options& options, config::Spec spec, comm::World& world) {
  const auto use = [&](const std::string& file) {
    spec.model.load_weights = file;
    spec.model.load_weights_pos = {};
    return std::move(spec);
  };
  if (!options.weights.empty()) return use(options.weights);
  const auto folder = std::filesystem::path(run_folder(spec));
  const auto trained = folder / "final.safetensors";
  if (world.broadcast(std::filesystem::exists(trained) ? "1" : "0", 0) == "1") return use(trained.string());
  if (const auto found = train::find_checkpoint(world, (folder / "checkpoints").string(), "auto")) {
    print_warnings(world, found->skipped);
    return use(found->folder);
  }
  if (spec.model.load_weights.empty())
    fail(ExitCode::kCheckpoint,
         "there are no weights: {} is not there, nor a checkpoint, and model.load_weights is not given; train first, "
         "or give --weights FILE",
         trained.string());
  return spec;
}

std::string data_name(const Options& options, const config::Spec& spec) {
  if (!options.data.empty()) return options.data;
  return spec.data.contains("validation") ? "validation" : "train";
}

train::SessionOptions session_options(const Options& options, std::vector<std::string> programs) {
  train::SessionOptions session;
  session.programs = std::move(programs);
  session.allow_mixed = options.allow_mixed;
  session.time_limit_s = static_cast<double>(options.timeout_s);
  session.profile = options.profile;
  session.nan_search = options.nan_search;
  return session;
}

void print_warnings(const comm::World& world, const std::vector<std::string>& warnings) {
  if (world.rank() != 0) return;
  for (const auto& warning : warnings) std::cerr << "warning: " + warning + "\n";
}

}  // namespace tessera::trainer
