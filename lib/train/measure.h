#pragma once

#include "comm/communicator.h"
#include "partition/hardware.h"
#include "train/launch.h"

namespace tessera::train {

/// Speeds of this rank's device and, with several ranks, of the links between them (an all-reduce of 16 MiB for the
/// bandwidth, of 4 bytes for the latency), as a profile for `hardware:`. Links between nodes are those that were
/// measured if the job spans nodes; else the built-in profile's. Collective; rank 0's numbers everywhere.
partition::Hardware measure_hardware(comm::World& world, const Launch& launch, device::DeviceKind kind);

}  // namespace tessera::train
