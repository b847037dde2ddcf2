#include "device/device.h"

#include "core/error.h"

namespace tessera::device {

std::unique_ptr<Device> make_cuda_device(int) {
  fail(ExitCode::kConfig, "this build has no CUDA backend; use device: cpu");
}

}  // namespace tessera::device
