#pragma once

#include <array>
#include <vector>

#include "partition/program.h"

namespace tessera::partition {

/// By position of an instruction (all sections in order): the last position of each stream that has ended when it
/// starts, and itself for its own stream. Sections are joined at their ends.
std::vector<std::array<int, 2>> clocks(Program& program);

}  // namespace tessera::partition
