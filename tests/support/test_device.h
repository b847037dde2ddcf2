#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "device/cuda.h"
#include "device/device.h"

namespace tessera::test {

/// What TESSERA_TEST_DEVICE (cpu or cuda) asks tests to run on: a GPU, or an emulated one, or the CPU.
inline device::DeviceKind device_kind() {
  const char* device = std::getenv("TESSERA_TEST_DEVICE");
  return device != nullptr && std::string(device) == "cuda" ? device::DeviceKind::kCuda : device::DeviceKind::kCpu;
}

/// `device:` of a config for ranks that are threads of one process: they can have no GPU each.
inline std::string device_of_threads(int ranks) { return ranks > 1 ? "cpu" : to_string(device_kind()); }

inline std::unique_ptr<device::Device> make_device(int gpu = 0) {
  if (device_kind() == device::DeviceKind::kCuda) return device::cuda_backend().make_device({.index = gpu});
  return device::make_cpu_device({});
}

}  // namespace tessera::test
