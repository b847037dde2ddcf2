#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <memory>
#include <type_traits>

namespace tessera::device::cuda {

/// A handle of the runtime that is given back by `destroy`.
template <typename Handle, auto destroy>
struct Destroy {
  void operator()(Handle handle) const { (void)destroy(handle); }  // an error shows at the next call
};
template <typename Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, destroy>>;

using CudaStream = Owned<cudaStream_t, &cudaStreamDestroy>;
using CudaEvent = Owned<cudaEvent_t, &cudaEventDestroy>;
using CudaGraph = Owned<cudaGraph_t, &cudaGraphDestroy>;
using CudaGraphExec = Owned<cudaGraphExec_t, &cudaGraphExecDestroy>;

using DeviceMemory = Owned<void*, &cudaFree>;    // cudaMalloc
using HostMemory = Owned<void*, &cudaFreeHost>;  // pinned

/// A stream of its own beside the legacy one; of the highest priority there is, or the lowest.
CudaStream make_stream(bool high_priority);
CudaEvent make_event(bool timed);

/// Throws Error (out of memory) that tells what was free.
DeviceMemory device_memory(std::int64_t bytes);
HostMemory host_memory(std::int64_t bytes);

}  // namespace tessera::device::cuda
