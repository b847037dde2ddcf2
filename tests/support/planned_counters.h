#pragma once

#include "comm/communicator.h"
#include "partition/program.h"

namespace tessera::test {

/// What the plan says that a rank's communicators count in so many steps of the program "train" with "apply". Of box
/// exchanges nothing: a rank's own share differs from the largest, which the plan has.
comm::Counters planned_counters(const partition::Plan& plan, std::int64_t steps);

}  // namespace tessera::test
