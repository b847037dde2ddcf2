#pragma once

#include <string>

#include "partition/program.h"

namespace tessera::report {

/// The whole plan as JSON, the same text for the same plan: state, programs with every value and instruction, edges,
/// pools.
std::string plan_json(const partition::Plan& plan);

}  // namespace tessera::report
