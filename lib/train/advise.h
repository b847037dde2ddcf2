#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/spec.h"
#include "train/session.h"

namespace tessera::train {

/// One way to distribute the model, simplest first.
struct Candidate {
  std::string name;  // "one device", "DataParallel", "sharded parameters", "this layout"
  std::int64_t ranks = 1;
  std::int64_t bytes = 0;  // of a device
  bool fits = false;
  double step_ms = 0;        // predicted
  double communication = 0;  // share of the step that is communication if nothing overlaps
  std::optional<double> measured_ms = {};
};

struct Advice {
  std::vector<Candidate> candidates;
  std::int64_t memory_limit = 0;     // bytes a device may hold; 0: the limit of one device is unknown
  std::string limit_from;            // "profile h100", "free memory of this node / ranks"
  int simplest = -1;                 // index of the simplest candidate that fits; -1: none
  std::vector<std::string> verdict;  // sentences
};

/// "Reach for the simple one first, measure before model parallel": plans the training step on one device, with
/// DataParallel, with the parameters sharded over the batch axis and with the spec's own layouts. Throws Error
/// (config).
Advice advise(const config::Spec& spec, std::int64_t ranks);

/// The same, and trains 20 real steps of each candidate that fits on this world. Collective; the same result on all
/// ranks.
Advice advise_measured(const config::Spec& spec, comm::World& world, const SessionOptions& options);

}  // namespace tessera::train
