#pragma once

#include "support/case.h"

namespace tessera::equality {

/// The case of a number: the same on every machine.
test::Case random_case(std::uint64_t number);

}  // namespace tessera::equality
