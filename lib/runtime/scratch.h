#pragma once

#include <cstdint>

#include "device/device.h"
#include "partition/program.h"

namespace tessera::runtime {

/// Working memory in bytes that a device of this kind needs for a kernel of a program, on any rank: for
/// partition::PlanRequest.
std::int64_t scratch_bytes(device::DeviceKind kind, const partition::Program& program,
                           const partition::KernelCall& call);

}  // namespace tessera::runtime
