#pragma once

#include <cstddef>
#include <nccl.h>

#include "core/error.h"

// Symmetric windows, as NCCL has them from 2.27 on.
namespace tessera::comm {

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
using Window = ncclWindow_t;

inline ncclResult_t register_window(ncclComm_t comm, void* memory, std::size_t bytes, Window* window) {
  return ncclCommWindowRegister(comm, memory, bytes, window, NCCL_WIN_COLL_SYMMETRIC);
}
inline void deregister_window(ncclComm_t comm, Window window) { (void)ncclCommWindowDeregister(comm, window); }
#else
using Window = void*;

inline ncclResult_t register_window(ncclComm_t, void*, std::size_t, Window*) {
  fail(ExitCode::kConfig,
       "this build's NCCL is {}.{}, which has no symmetric windows: set nccl_windows of the hardware "
       "file to false, or build with NCCL 2.27 or newer",
       NCCL_MAJOR, NCCL_MINOR);
}
inline void deregister_window(ncclComm_t, Window) {}
#endif

}  // namespace tessera::comm
