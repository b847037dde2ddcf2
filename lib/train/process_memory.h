#pragma once

#include <cstdint>

namespace tessera::train {

/// Resident bytes of this process now, and their peak so far.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

/// Bytes that the node (or the process's cgroup, if less) can still hand out.
std::int64_t available_bytes();

}  // namespace tessera::train
