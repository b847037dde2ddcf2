#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "train/observer.h"
#include "train/session.h"

namespace tessera::train {

struct CheckpointOptions {
  std::string parent;                        // the folder of all checkpoints
  std::string version;                       // of the program, for the manifest
  std::map<std::string, std::string> order;  // for the manifest
  std::int64_t first_step = 0;               // steps done where the run goes on
  bool first_is_saved = false;               // in `parent`
};

/// Saves the state of a session: every rank its share, copied to the snapshot pool between two steps and written by a
/// thread while steps go on. One save at a time. A save that fails is a warning, as long as the run goes on.
class Checkpoints {
 public:
  /// Collective. Removes what unfinished saves have left, sets those of later steps aside, and warns where the disk has
  /// no room for what is to come. Throws Error (checkpoint) on all ranks.
  Checkpoints(Session& session, Observer& observer, CheckpointOptions options);
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// After each step. Finishes a save that all ranks have written, begins one that is due. Collective.
  void step_done(const checkpoint::Position& position);

  /// Saves now, and returns when it is finished: at the end, and before an interrupted run ends. Collective. Throws
  /// Error (checkpoint) on all ranks if it can't be done.
  void save_now(const checkpoint::Position& position);

  /// Finishes the save in hand, as fast as the disk goes. Collective.
  void finish_in_hand();

 private:
  class Save;

  bool is_due(const checkpoint::Position& position);
  void begin(const checkpoint::Position& position);
  /// Throws Error (checkpoint) on all ranks.
  void finish();
  void finish_or_warn();
  void wait_and_finish();
  /// The checksums of all ranks' parts added up. Throws Error (checkpoint) on all ranks if one of them has failed.
  std::vector<std::uint64_t> gather_sums(const Save& save) const;
  void tell(const std::function<void()>& event);
  void warn(const std::string& sentence);
  std::string lack_of_room() const;
  checkpoint::Manifest manifest(const Save& save, const std::vector<std::uint64_t>& sums) const;

  Session& session_;
  Observer& observer_;
  CheckpointOptions options_;
  std::unique_ptr<Save> save_;    // the one that is being written
  std::int64_t saved_step_ = -1;  // of the newest that is finished
  bool warned_of_waits_ = false;
  std::chrono::steady_clock::time_point last_begin_ = std::chrono::steady_clock::now();
  double copy_ms_ = 0;  // of the save in hand
};

}  // namespace tessera::train
