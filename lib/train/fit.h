#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "train/observer.h"
#include "train/session.h"

namespace tessera::train {

struct FitResult {
  std::vector<double> batch_losses;  // of all epochs, each before its update
  std::vector<Logs> history;         // by epoch: Keras's History
  std::int64_t steps = 0;
  bool interrupted = false;
};

/// keras.Model.fit. `stop`: asked on every rank after each step; one rank's yes ends the run on all. Collective. Throws
/// Error (not finite) naming the step and the first bad variable.
FitResult fit(Session& session, Observer& observer, const std::function<bool()>& stop);

}  // namespace tessera::train
