#include <dlfcn.h>

#include "core/error.h"
#include "core/shared_object.h"
#include "device/cuda.h"

namespace tessera::device {
namespace {

/// cuBLASLt alone takes a tenth of a GiB: it is not loaded where nothing can come of it.
const CudaBackend* open_backend() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr)
    fail(ExitCode::kConfig, "there is no NVIDIA driver here (libcuda.so.1); install one, or use device: cpu");
  dlclose(driver);
  return shared_object_entry<CudaBackend>("libtessera_cuda.so", "tessera_cuda_backend", "CUDA", "the CUDA libraries");
}

}  // namespace

const CudaBackend& cuda_backend() {
  static const auto* backend = open_backend();  // tried anew after a failure
  return *backend;
}

}  // namespace tessera::device
