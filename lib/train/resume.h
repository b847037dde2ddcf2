#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "train/session.h"

namespace tessera::train {

/// A checkpoint that is whole.
struct Found {
  std::string folder;
  checkpoint::Manifest manifest;
  std::vector<std::string> skipped;  // sentences: newer ones that are damaged
};

/// `resume`: "auto", the newest of the parent's checkpoints that is whole, or none where there are none; "never"; else
/// the folder of one. Every rank reads an equal part of the bytes to compare checksums. Collective. Throws Error
/// (checkpoint) on all ranks: the one that was named is damaged, or all are.
std::optional<Found> find_checkpoint(comm::World& world, const std::string& parent, const std::string& resume);

/// Where a path is the folder of a checkpoint, compares its checksums. Collective. Throws Error (checkpoint) on all
/// ranks.
void require_whole(comm::World& world, const std::string& path);

/// What the order of the data follows from. A run that goes on inside an epoch must have the same.
std::map<std::string, std::string> data_order(const config::Spec& spec, std::int64_t samples);

/// Fills the session's states, whatever mesh they were saved on, and returns where the run stands. A difference in the
/// variables or in the order of the data is an Error (checkpoint) that lists all; with `resume.partial` the weights
/// that fit by path and shape are taken, training starts at its first step, and `warnings` tell. Collective.
checkpoint::Position restore(Session& session, const Found& found, const std::map<std::string, std::string>& order,
                             std::vector<std::string>& warnings);

}  // namespace tessera::train
