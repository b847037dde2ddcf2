#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sys/file.h>

#include "job.h"
#include "report/jsonl.h"
#include "report/observers.h"
#include "report/plan_json.h"
#include "report/profile_tables.h"
#include "report/progress.h"
#include "train/agree.h"
#include "train/fit.h"
#include "train/planning.h"
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
void begin_folder(const std::filesystem::path& folder, const train::Session& session) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ExitCode::kData, "can't create {}: {}", folder.string(), error.message());
  lock_folder(folder);
  for (const auto* former : {"final.safetensors", "final.safetensors.partial", "predict"}) {
    if (std::filesystem::equivalent(folder / former, session.spec().model.load_weights, error)) continue;
    std::filesystem::remove_all(folder / former, error);
    if (error) fail(ExitCode::kData, "can't remove {}: {}", (folder / former).string(), error.message());
  }
  write_text(folder / "config.resolved.yaml", session.spec().resolved);
  write_text(folder / "plan.json", report::plan_json(session.plan()));
}

}  // namespace

ExitCode train(const Options& options, comm::World& world) {
  const auto spec = load_spec(options, world);
  if (!spec.compile.present)
    fail_at(spec.pos, ExitCode::kConfig, "there is no `compile:`; say with which optimizer and loss to train");
  train::SignalFlag signal;
  train::Session session(spec, world, session_options(options, train::training_programs(spec)));
  print_warnings(world, session.warnings());

  const std::filesystem::path folder = run_folder(spec);
  report::Observers observers;
  train::agree(world, [&] {
    if (world.rank() != 0) return;
    begin_folder(folder, session);
    observers.add(std::make_unique<report::JsonlWriter>((folder / "metrics.jsonl").string()));
    observers.add(std::make_unique<report::Progress>(stderr));
  });
  const auto result = train::fit(session, observers, [&] { return signal.raised(); });
  if (options.profile && world.rank() == 0)
    report::write_profile(std::cout, session.executor().times(), session.hardware());
  train::save_weights(world, session.executor(), (folder / "final.safetensors").string());
  return result.interrupted ? ExitCode::kRequeue : ExitCode::kDone;
}

}  // namespace tessera::trainer
