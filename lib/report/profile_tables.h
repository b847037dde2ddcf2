#pragma once

#include <iosfwd>
#include <vector>

#include "partition/hardware.h"
#include "runtime/profiler.h"

namespace tessera::report {

/// Where a step's time went on one rank: by layer, and the instructions that took most. `percent of limit`: the time
/// that the hardware profile's peak and bandwidth would need, of the time that it took.
void write_profile(std::ostream& to, const std::vector<runtime::InstructionTime>& times,
                   const partition::Hardware& hardware);

}  // namespace tessera::report
