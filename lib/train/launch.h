#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"

namespace tessera::train {

/// How this rank computes, agreed among all.
struct Launch {
  device::CpuOptions device;
  bool comm_thread = false;  // a core is left for communication
  std::vector<std::string> warnings;
};

/// Ranks that hold replicas must compute the same bits, so all use the same instruction set, libraries and number of
/// threads. Throws Error (launch) naming the first rank that differs; with `allow_mixed` all take the least of each and
/// the difference is a warning. `threads` 0: OMP_NUM_THREADS, else the cores of the node / the ranks on it. Collective.
Launch agree_on_launch(comm::World& world, bool allow_mixed, int threads);

/// A file of this name in the user's cache folder; "" where there is none.
std::string cache_file(const std::string& name);

/// Whether a launcher (mpirun, srun) started this process as one of several.
bool launched_by_mpi();

}  // namespace tessera::train
