#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sys/file.h>

#include "checkpoint/folders.h"
#include "job.h"
#include "report/jsonl.h"
#include "report/observers.h"
#include "report/plan_json.h"
#include "report/profile_tables.h"
#include "report/progress.h"
#include "train/agree.h"
#include "train/fit.h"
#include "train/planning.h"
#include "train/resume.h"
#include "train/signals.h"
#include "train/weights.h"
#include "verbs.h"

namespace tessera::trainer {
namespace {

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text << std::flush;
  if (!out) fail(ExitCode::kData, "can't write {}; is the disk full, or the folder not writable?", file.string());
}

/// Keeps a second run out of the folder until this process ends. Some network file systems can't lock a folder.
void lock_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 || ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  fail(ExitCode::kData, "another run writes to {}; give one of them another `name` or `output_dir`", folder.string());
}

/// A fresh run replaces what an earlier one of that name left: weights and predictions of another model must not look
/// like its own. The weights that it starts from stay until its own are there.
void begin_folder(const std::filesystem::path& folder, const train::Session& session, const train::Found* found) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ExitCode::kData, "can't create {}: {}", folder.string(), error.message());
  lock_folder(folder);
  std::vector<std::string> replaced{"final.safetensors", "final.safetensors.partial", "predict"};
  if (found == nullptr) replaced.emplace_back("checkpoints");
  for (const auto& former : replaced) {
    if (std::filesystem::equivalent(folder / former, session.spec().model.load_weights, error)) continue;
    std::filesystem::remove_all(folder / former, error);
    if (error) fail(ExitCode::kData, "can't remove {}: {}", (folder / former).string(), error.message());
  }
  write_text(folder / "config.resolved.yaml", session.spec().resolved);
  write_text(folder / "plan.json", report::plan_json(session.plan()));
}

/// A run that begins replaces the checkpoints of its folder.
void require_foreign_weights(const config::Spec& spec, const std::string& parent) {
  const auto own = std::filesystem::absolute(parent).lexically_normal().string() + "/";
  if (spec.model.load_weights.starts_with(own))
    fail_at(spec.model.load_weights_pos, ExitCode::kConfig,
            "{} lies among this run's own checkpoints, which a run that begins anew replaces; give it another `name`",
            spec.model.load_weights);
}

/// What a signal alone has asked for is of no more use when training is complete.
void remove_interruptions(const std::string& parent) {
  std::error_code error;
  for (const auto& folder : checkpoint::finished_folders(parent)) {
    const bool asked_for =
        ("\n" + checkpoint::read_manifest(folder.path).config).find("\ncheckpoint:") != std::string::npos;
    if (!asked_for) std::filesystem::remove_all(folder.path, error);  // what can't be removed does no harm
  }
  std::filesystem::remove(parent, error);  // if it is empty
}

/// Whether a checkpoint is one of this run's folder, as rank 0 sees it. Collective.
bool is_in(const std::string& parent, const std::string& folder, comm::World& world) {
  std::error_code error;
  const auto above = std::filesystem::weakly_canonical(folder, error).parent_path();
  return world.broadcast(std::filesystem::equivalent(above, parent, error) ? "1" : "0", 0) == "1";
}

}  // namespace

ExitCode train(const Options& options, comm::World& world) {
  const auto spec = load_spec(options, world);
  if (!spec.compile.present)
    fail_at(spec.pos, ExitCode::kConfig, "there is no `compile:`; say with which optimizer and loss to train");
  train::SignalFlag signal;
  const std::filesystem::path folder = run_folder(spec);
  const auto parent = (folder / "checkpoints").string();
  const auto found = train::find_checkpoint(world, parent, options.resume);
  if (!found) require_foreign_weights(spec, parent);
  auto wanted = session_options(options, train::training_programs(spec));
  if (found) wanted.tuning = found->manifest.tuning;
  train::Session session(spec, world, wanted);
  print_warnings(world, session.warnings());

  train::Training training(session);
  train::CheckpointOptions saving{
      .parent = parent, .version = TESSERA_VERSION, .order = train::data_order(spec, training.samples())};
  std::vector<std::string> warnings;
  if (found) {
    warnings = found->skipped;
    const auto position = train::restore(session, *found, saving.order, warnings);
    training.start_at(position);
    saving.first_step = position.steps;
    saving.first_is_saved = position == found->manifest.position && is_in(parent, found->folder, world);
  }
  report::Observers observers;
  train::agree(world, [&] {
    if (world.rank() != 0) return;
    begin_folder(folder, session, found ? &*found : nullptr);
    const auto events = (folder / "metrics.jsonl").string();
    if (saving.first_is_saved)
      report::cut_after_step(events, saving.first_step, found->manifest.position.step_in_epoch == 0);
    observers.add(std::make_unique<report::JsonlWriter>(events, saving.first_is_saved));
    observers.add(std::make_unique<report::Progress>(stderr));
    if (saving.first_step > 0)
      std::cerr << fmt::format("resumes after step {}, from {}\n", saving.first_step, found->folder);
    for (const auto& warning : warnings) observers.warning(warning);
  });
  train::Checkpoints checkpoints(session, observers, saving);
  const auto result = training.run(observers, &checkpoints, [&] { return signal.raised(); });
  if (options.profile && world.rank() == 0)
    report::write_profile(std::cout, session.executor().times(), session.hardware());
  if (!result.interrupted) {
    train::save_weights(world, session.executor(), (folder / "final.safetensors").string());
    train::agree(world, [&] {
      if (world.rank() == 0 && !spec.checkpoint.present) remove_interruptions(parent);
    });
  }
  if (!result.save_failure.empty())
    fail(ExitCode::kCheckpoint, "the last checkpoint was NOT saved: {}", result.save_failure);
  return result.interrupted ? ExitCode::kRequeue : ExitCode::kDone;
}

}  // namespace tessera::trainer
