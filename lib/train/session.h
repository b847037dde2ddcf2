#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "config/spec.h"
#include "device/device.h"
#include "layers/build.h"
#include "runtime/executor.h"
#include "train/gpu.h"
#include "train/observer.h"
#include "train/planning.h"

namespace tessera::train {

struct SessionOptions {
  std::vector<std::string> programs;  // of "train", "evaluate", "predict"; empty: all that the spec can have
  bool single_device = false;         // the whole model on this rank, whatever the spec's distribution says
  bool allow_mixed = false;           // ranks on different processors
  int threads = 0;                    // of the device; 0: cores of the node / ranks on it
  bool comm_thread = false;           // overlap communication even where no core is left for it
  bool profile = false;               // take the time of every instruction
  bool nan_search = false;            // look at every value, and name the first that is not finite
  std::string tuning = {};            // what a former run took, to be taken again
  double time_limit_s = 120;          // that a rank waits for others in a step
};

/// A planned model on this rank's device, with its first values: from the initialisers, or from model.load_weights.
class Session {
 public:
  /// Collective. Throws the same Error on all ranks: config, launch, out of memory, checkpoint.
  Session(const config::Spec& spec, comm::World& world, const SessionOptions& options);

  const config::Spec& spec() const { return spec_; }
  comm::World& world() { return world_; }
  const Planning& planning() const { return planning_; }
  const partition::Plan& plan() const { return planning_.plan; }
  runtime::Executor& executor() { return *executor_; }
  const DeviceChoice& device() const { return choice_; }
  /// The profile that the plan was made for.
  partition::Hardware hardware() const;
  bool has_program(const std::string& name) const { return plan().programs.contains(name); }
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// The loss that the last run of a program left.
  double loss(const std::string& program) const;
  /// The value of a report output ("grad_norm_squared"), if the program has it.
  std::optional<double> report(const std::string& program, std::string_view name) const;

  /// Sets the states of a program's metrics to 0.
  void reset_metrics(const std::string& program);
  /// This rank's sums, and back.
  std::vector<std::byte> metric_sums(const std::string& program) const;
  void set_metric_sums(const std::string& program, const std::vector<std::byte>& sums);
  /// Their values over all ranks since the reset, by name. Collective.
  Logs metrics(const std::string& program);

  /// What the end of a loop of so many steps tells: memory of the process, and what the communicators have counted.
  EndEvent end_event(std::int64_t steps) const;

 private:
  std::vector<const partition::StateBuffer*> metric_states(const std::string& program) const;
  Planning plan_for(const SessionOptions& options, std::int64_t memory_limit) const;
  void open_gpu();
  std::int64_t beside_plan() const;
  std::int64_t free_bytes() const;
  std::int64_t needed_bytes() const;

  const config::Spec& spec_;
  comm::World& world_;
  DeviceChoice choice_;
  Planning planning_;
  std::vector<std::string> metric_names_, warnings_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<comm::World> gpu_world_;  // where several ranks have GPUs: the collectives of the executor
  std::unique_ptr<runtime::Executor> executor_;
  std::int64_t baseline_bytes_ = 0, gpu_baseline_bytes_ = 0;
};

}  // namespace tessera::train
