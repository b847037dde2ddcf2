#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "mesh/distribution.h"
#include "partition/hardware.h"
#include "partition/program.h"

namespace tessera::partition {

struct PlanRequest {
  const mesh::Distribution* distribution = nullptr;
  Hardware hardware;
  std::int64_t micro_batches = 1;
  /// By program name: "train", "evaluate", "predict". They share variables by path.
  std::vector<std::pair<std::string, const graph::Model*>> models;
  bool explain = false;           // fill EdgeReport::rejected
  std::int64_t memory_limit = 0;  // bytes a device; 0: the profile's, or none
  /// Host memory that a program's loader reads through, beside the batch that it prefetches; 0: nothing is loaded.
  std::int64_t loader_bytes = 0;
  bool snapshot = false;            // checkpoints are written while steps go on
  bool uploads = false;             // kernels cannot read the host's memory: inputs are copied to the device
  bool squares_in_updates = false;  // the device's updates hand out the sums of squares of their gradients
  /// Working memory in bytes that the device needs for a kernel; the plan has the most of all, and of the profile's.
  std::function<std::int64_t(const Program&, const KernelCall&)> scratch = {};
};

/// Decides the layouts, the strategies and the communication of all programs, and lays out the memory.
/// Throws Error: config (layout rules that don't fit), out of memory (exit 5, with the ten largest buffers and the
/// least number of ranks that fits).
Plan make_plan(const PlanRequest& request);

/// The pools that a plan has: all, but kUploads where kernels read the host's memory, and kSnapshot without
/// checkpoints.
std::vector<Pool> pools_of(const Plan& plan);

/// Bytes of device memory that a rank needs: all pools but those of the host, staging and snapshot.
std::int64_t device_bytes(const Plan& plan);

/// Verifies, knowing nothing of the allocator, that two values share bytes only if the last access of one happens
/// before the first access of the other, through stream order and recorded waits; that every read value has been
/// written; and that waits point backwards. Returns the violations, each a sentence; empty if the program is sound.
std::vector<std::string> check(const Plan& plan, const Program& program);

/// A hash of everything that the ranks must agree on.
std::uint64_t hash(const Plan& plan);

}  // namespace tessera::partition
