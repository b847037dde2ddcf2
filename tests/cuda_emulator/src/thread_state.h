#pragma once

#include "cuda_runtime_api.h"

namespace tessera::cuda_emulator {

/// What the emulator keeps for each thread of the host. One object, because the thread that runs streams fills its
/// thread-local variables before each block (they hold the kernels' shared memory) and has to spare this one.
struct ThreadState {
  bool in_kernel;
  int device;
  cudaError_t last_error;
};

extern thread_local constinit ThreadState this_thread;

}  // namespace tessera::cuda_emulator
