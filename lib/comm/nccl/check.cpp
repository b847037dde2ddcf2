#include "comm/nccl/check.h"

#include "core/error.h"

namespace tessera::comm {

void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  const bool peer = result == ncclRemoteError || result == ncclSystemError;
  const char* detail = ncclGetLastError(nullptr);
  fail(peer ? ExitCode::kPeerLost : ExitCode::kInternal, "{} failed: {}{}{}", call, ncclGetErrorString(result),
       detail != nullptr && *detail != '\0' ? ": " : "", detail != nullptr ? detail : "");
}

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) fail(ExitCode::kInternal, "{} failed: {}", call, cudaGetErrorString(error));
}

}  // namespace tessera::comm
