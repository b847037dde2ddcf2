#pragma once

#include <cstdint>
#include <functional>

#include "train/observer.h"
#include "train/session.h"

namespace tessera::train {

struct FitResult {
  std::int64_t steps = 0;
  bool interrupted = false;
};

/// keras.Model.fit. `stop`: asked on every rank after each step; one rank's yes ends the run on all. Collective. Throws
/// Error (not finite) naming the step and the first bad variable.
FitResult fit(Session& session, Observer& observer, const std::function<bool()>& stop);

}  // namespace tessera::train
