#pragma once

#include <memory>

#include "device/cuda.h"

namespace tessera::device::cuda {

/// CudaBackend::make_device.
std::unique_ptr<Device> make_device(const CudaOptions& options);

/// CudaBackend::libraries.
CudaLibraries libraries();

}  // namespace tessera::device::cuda
