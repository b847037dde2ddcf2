#pragma once

#include <string>
#include <vector>

#include "train/session.h"

namespace tessera::train {

/// Fills the model's weights from a safetensors file, by path: every rank reads its own boxes. All must be there with
/// the same shape, as in keras.Model.load_weights. Returns the tensors of the file that the model doesn't have.
/// Collective. Throws Error (checkpoint) on all ranks, naming file and variable, with the place that named the file.
std::vector<std::string> load_weights(comm::World& world, runtime::Executor& executor, const std::string& file,
                                      const SourcePos& pos);

/// Throws what load_weights would, reading only the file's header.
void check_weights(const partition::Plan& plan, const std::string& file, const SourcePos& pos);

/// Writes all weights, trained and moving, by path: every rank writes its own boxes of one file, which takes its name
/// when it is whole. Collective. Throws Error (checkpoint) on all ranks.
void save_weights(comm::World& world, runtime::Executor& executor, const std::string& file);

}  // namespace tessera::train
