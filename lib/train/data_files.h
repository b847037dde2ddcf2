#pragma once

#include "comm/communicator.h"
#include "config/spec.h"

namespace tessera::train {

/// Ranks that read copies of their own must read the same: compares size and samples of the content of each file of a
/// dataset among all ranks. Collective. Throws Error (data), with the place that names the file: the first rank and
/// host that differ from rank 0, or that lack it.
void require_equal_files(comm::World& world, const config::DataSpec& data);

}  // namespace tessera::train
