#include "core/error.h"
#include "device/cuda.h"

namespace tessera::device {

const CudaBackend& cuda_backend() { fail(ExitCode::kConfig, "this build has no CUDA backend; use device: cpu"); }

}  // namespace tessera::device
