#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "config/spec.h"

namespace tessera::train {

/// What an examination says of one thing.
struct Finding {
  enum class Level : std::uint8_t { kOk, kWarning, kFailure } level = Level::kOk;
  std::string subject;   // "GPUs"
  std::string sentence;  // what is there
  std::string fix = {};  // what to do about it; "" if nothing
};
std::string to_string(Finding::Level level);

/// Looks at a node, or at all nodes of a job, for what makes runs fail or slow: launcher and ranks, binding, equal
/// nodes, GPUs, communication, shared memory, the file system of the output, limits; with a config also its data and
/// checkpoints. Takes some seconds, writes and removes a file in the output's folder. `report` hears each finding at
/// once: ranks that can't reach each other may end the job. Collective; the same on all ranks.
std::vector<Finding> examine(comm::World& world, const std::optional<config::Spec>& spec,
                             const std::function<void(const Finding&)>& report);

}  // namespace tessera::train
