#pragma once

#include <string>
#include <vector>

#include "train/feed.h"
#include "train/session.h"

namespace tessera::train {

/// Runs program "predict" over a feed in row order and writes folder/LAYER.npy for each output of the model; every rank
/// writes its own boxes. Returns the files. Collective. Throws Error (data) on all ranks where a file can't be written.
std::vector<std::string> predict(Session& session, Feed& feed, const std::string& folder);

}  // namespace tessera::train
