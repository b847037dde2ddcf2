#pragma once

#include <map>
#include <string>

#include "partition/assignment.h"
#include "partition/program.h"

namespace tessera::partition {

/// Fills EdgeReport::rejected: what the cheapest plan costs more in which the edge has another pair of layouts.
void explain_edges(Plan& plan, const std::map<std::string, SolverInput>& inputs,
                   const std::map<std::string, Assignment>& assignments);

}  // namespace tessera::partition
