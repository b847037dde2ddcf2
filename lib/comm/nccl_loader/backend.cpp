#include "comm/nccl.h"
#include "core/shared_object.h"

namespace tessera::comm {

const NcclBackend& nccl_backend() {
  static const auto* backend =
      shared_object_entry<NcclBackend>("libtessera_nccl.so", "tessera_nccl_backend", "NCCL", "the NCCL library");
  return *backend;
}

}  // namespace tessera::comm
