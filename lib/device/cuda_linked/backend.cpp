#include "device/cuda.h"

namespace tessera::device {

extern "C" const CudaBackend* tessera_cuda_backend();

// The backend is linked into this program: the build on the emulator.
const CudaBackend& cuda_backend() { return *tessera_cuda_backend(); }

}  // namespace tessera::device
