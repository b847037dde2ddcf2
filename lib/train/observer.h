#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "comm/communicator.h"

namespace tessera::train {

/// Keys and values of Keras's logs, in alphabetical order.
using Logs = std::map<std::string, double>;

struct BeginEvent {
  std::int64_t epochs = 0, steps_per_epoch = 0, batch_size = 0, samples = 0;
};

struct StepEvent {
  std::int64_t epoch = 0;          // from 0
  std::int64_t step = 0;           // from 1, over all epochs
  std::int64_t step_in_epoch = 0;  // from 1
  double loss = 0;                 // before the update
  double learning_rate = 0;
  std::optional<double> grad_norm = {};  // where the optimizer computes it
  double step_ms = 0;                    // since the previous step's end
  double samples_per_s = 0;
};

/// A checkpoint that is finished.
struct CheckpointEvent {
  std::int64_t step = 0;
  std::int64_t bytes = 0;  // of all ranks
  double copy_ms = 0;      // for which rank 0's steps stood still
  double write_s = 0;      // from then on until it was finished
};

struct EndEvent {
  std::int64_t steps = 0;
  std::int64_t planned_bytes = 0;
  std::map<std::string, std::int64_t> pools;
  std::int64_t baseline_bytes = 0;      // of the process before the pools: MPI and libraries
  std::int64_t gpu_baseline_bytes = 0;  // in use on this rank's GPU beside the pools: context, NCCL, other programs
  std::int64_t peak_rss_bytes = 0;
  comm::Counters collectives;
  bool interrupted = false;
};

/// Hears what a loop does. Called on every rank with the same numbers; an observer that prints lives on rank 0 only.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void begin(const BeginEvent&) {}
  virtual void epoch_begin(std::int64_t /*epoch*/) {}
  virtual void step(const StepEvent&) {}
  virtual void evaluate(const std::string& /*on*/, const Logs&) {}
  virtual void epoch(std::int64_t /*epoch*/, const Logs&) {}
  virtual void checkpoint(const CheckpointEvent&) {}
  virtual void warning(const std::string& /*sentence*/) {}
  virtual void end(const EndEvent&) {}
};

}  // namespace tessera::train
