#include "core/shared_object.h"
#include "device/cuda.h"

namespace tessera::device {

const CudaBackend& cuda_backend() {
  static const auto* backend =
      shared_object_entry<CudaBackend>("libtessera_cuda.so", "tessera_cuda_backend", "CUDA", "the CUDA libraries");
  return *backend;
}

}  // namespace tessera::device
