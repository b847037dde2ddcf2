#include "comm/nccl.h"
#include "core/error.h"

namespace tessera::comm {

const NcclBackend& nccl_backend() {
  fail(ExitCode::kConfig, "this build has no NCCL, which several ranks with GPUs need; use device: cpu");
}

}  // namespace tessera::comm
