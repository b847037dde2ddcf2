#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/header.h"
#include "checkpoint/shards.h"
#include "partition/program.h"

namespace tessera::train {

/// How the states of a plan lie in a checkpoint: weights in model-*, slots and the sums of the metrics in optimizer-*.
/// A metric's sums differ from rank to rank: its tensor has a row for each.
struct SavedFiles {
  std::vector<checkpoint::ShardFile> model, optimizer;

  std::vector<checkpoint::ShardFile> all() const;
  std::int64_t bytes() const;
};
SavedFiles saved_files(const partition::Plan& plan);

/// What a rank saves of a state: elements [first, first + count) of its own part, which is `box` of the saved tensor.
struct SavedPart {
  const partition::StateBuffer* state = nullptr;
  Box box;
  std::int64_t first = 0, count = 0;

  std::int64_t item() const { return size_of(state->dtype); }
  std::int64_t bytes() const { return count * item(); }
};
/// Over all ranks every element once, the same number on each where replicas can divide it.
std::vector<SavedPart> parts_to_save(const partition::Plan& plan, std::int64_t rank);

/// The tensor in which a state is saved.
checkpoint::TensorSpec saved_tensor(const partition::Plan& plan, const partition::StateBuffer& state);

/// Walks through a box by rows: `visit` gets parts of it, each of at most 16 MiB or one row, and their first byte.
void for_each_piece(const Box& box, DType dtype, const std::function<void(const Box&, std::int64_t)>& visit);

}  // namespace tessera::train
