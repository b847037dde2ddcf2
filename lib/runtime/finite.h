#pragma once

#include "device/device.h"
#include "partition/program.h"
#include "runtime/image.h"

namespace tessera::runtime {

/// The first element of a local part that is not finite; -1: none, or the type has no such values.
std::int64_t bad_element(device::Device& device, const partition::ProgramValue& value, const void* memory);

/// Looks at what an instruction that has ended wrote. Throws Error (not finite) for a value that is not: names the
/// step, the instruction, the tensor, the local element, and which of what it read was not finite already.
void require_finite(device::Device& device, const partition::Program& program, const Step& step,
                    const device::StepParams& params);

}  // namespace tessera::runtime
