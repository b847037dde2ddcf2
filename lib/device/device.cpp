#include "device/device.h"

#include <fmt/format.h>

#include "device/cpu/kernels.h"
#include "device/cuda.h"
#include "device/cuda/scratch.h"

namespace tessera::device {

bool checks_data(const std::string& name) {
  return name == "embedding" || name == "sparse_crossentropy" || name == "row_sum_exp_picked";
}

std::string to_string(DeviceKind kind) { return kind == DeviceKind::kCpu ? "cpu" : "cuda"; }

std::int64_t scratch_bytes(DeviceKind kind, const KernelSpec& spec) {
  return kind == DeviceKind::kCpu ? cpu::scratch_bytes(spec) : cuda::scratch_bytes(spec);
}

}  // namespace tessera::device
