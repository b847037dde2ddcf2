#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "checkpoint/manifest.h"
#include "train/checkpoints.h"
#include "train/observer.h"
#include "train/session.h"

namespace tessera::train {

struct FitResult {
  std::int64_t steps = 0;
  bool interrupted = false;
  std::string save_failure = {};  // why the last checkpoint could not be saved
};

/// keras.Model.fit, from any step on. What is collective is so over the session's ranks.
class Training {
 public:
  /// Opens the data. Collective.
  explicit Training(Session& session);
  ~Training();

  /// Samples of data.train.
  std::int64_t samples() const;

  /// Goes on where another run stood, whose states the session has.
  void start_at(const checkpoint::Position& position);

  /// `checkpoints`: saves what the config asks for, and where `stop` ends the run; may be null. `stop`: asked on every
  /// rank after each step; one rank's yes ends the run on all. Once. Throws Error: not finite, naming the step and the
  /// first bad variable.
  FitResult run(Observer& observer, Checkpoints* checkpoints, const std::function<bool()>& stop);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

/// From the first step, without checkpoints.
FitResult fit(Session& session, Observer& observer, const std::function<bool()>& stop);

}  // namespace tessera::train
