#include "comm/nccl.h"

namespace tessera::comm {

extern "C" const NcclBackend* tessera_nccl_backend();

// The backend is linked into this program: the build on the emulator.
const NcclBackend& nccl_backend() { return *tessera_nccl_backend(); }

}  // namespace tessera::comm
