#pragma once

#include "cuda_runtime_api.h"

namespace tessera::cuda_emulator {

/// What every call that needs a device returns first: a driver that is too old, no device.
cudaError_t device_error();

}  // namespace tessera::cuda_emulator
