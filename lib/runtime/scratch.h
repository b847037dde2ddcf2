#pragma once

#include <cstdint>
#include <functional>

#include "device/device.h"
#include "partition/program.h"

namespace tessera::runtime {

/// For partition::PlanRequest: working memory in bytes that a device of this kind needs for a kernel of a program, on
/// any rank.
std::function<std::int64_t(const partition::Program&, const partition::KernelCall&)> scratch_on(
    device::DeviceKind kind);

}  // namespace tessera::runtime
