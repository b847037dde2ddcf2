#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/spec.h"
#include "device/device.h"
#include "graph/graph.h"
#include "mesh/distribution.h"
#include "partition/plan.h"

namespace tessera::train {

struct PlanningOptions {
  std::vector<std::string> programs;  // of "train", "evaluate", "predict"; the first one decides the plan's time
  bool explain = false;
  std::int64_t memory_limit = 0;                  // bytes a device, instead of the profile's
  std::optional<device::DeviceKind> device = {};  // absent: as `device:` says, or the hardware profile
  std::string why_device = {};                    // of `device`
  std::string hardware = {};                      // the profile where the config names none; "": cpu
};

/// What is known of a run before any device is touched.
struct Planning {
  mesh::Distribution distribution;
  std::map<std::string, graph::Model> models;  // by program
  std::int64_t batch_rows = 0;                 // of one batch, padded
  partition::Plan plan;
};

/// The profile or file that `hardware:` names, cpu by default. Throws Error (config) with the place.
partition::Hardware hardware_of(const config::Spec& spec);

/// What a run is planned for where nobody has looked for a GPU: `device:`, and for auto the profile's devices.
device::DeviceKind device_of(const config::Spec& spec, const partition::Hardware& hardware);

/// The programs that a spec can have: "predict" always, the others where it has `compile`.
std::vector<std::string> possible_programs(const config::Spec& spec);
/// Those that `train` runs: train and, with validation data, evaluate. Without `compile`: predict.
std::vector<std::string> training_programs(const config::Spec& spec);

/// Builds the graphs for `ranks` ranks and plans them. The same on every rank. Throws Error (config, out of memory),
/// also for layout rules that match nothing, unless `unmatched_rules: warn` makes them warnings of the plan.
Planning plan_run(const config::Spec& spec, std::int64_t ranks, const PlanningOptions& options);

/// As above on a given distribution instead of the spec's.
Planning plan_run(const config::Spec& spec, const mesh::Distribution& distribution, const PlanningOptions& options);

/// Rows of a batch: `batch_size` rounded up to a multiple of what splits its first dimension, times the micro-batches.
std::int64_t padded_rows(const config::Spec& spec, const mesh::Distribution& distribution, std::int64_t micro_batches);

/// Sum of the pools: bytes of one rank.
std::int64_t planned_bytes(const partition::Plan& plan);

}  // namespace tessera::train
