#pragma once

#include "comm/communicator.h"

namespace tessera::comm {

/// The world of all tests of a program under mpirun.
World& test_world();

}  // namespace tessera::comm
