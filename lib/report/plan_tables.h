#pragma once

#include <iosfwd>

#include "partition/program.h"

namespace tessera::report {

/// A plan for a person: mesh, state, every collective with its bytes and reason, memory by pool, predicted times,
/// warnings. `explain` adds for each edge on which something moves the strategies chosen and rejected.
void write_tables(std::ostream& to, const partition::Plan& plan, bool explain);

}  // namespace tessera::report
