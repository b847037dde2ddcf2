#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace tessera::comm {

/// Throws Error (peer lost) that names the call, where NCCL did not succeed.
void check(ncclResult_t result, const char* call);
/// Throws Error (internal).
void check(cudaError_t error, const char* call);

}  // namespace tessera::comm
