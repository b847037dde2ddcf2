#include "device/cuda/handles.h"

#include <algorithm>

#include "device/cuda/check.h"

namespace tessera::device::cuda {
namespace {

std::size_t at_least_one(std::int64_t bytes) { return static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)); }

}  // namespace

CudaStream make_stream(bool high_priority) {
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, high_priority ? highest : lowest),
        "cudaStreamCreateWithPriority");
  return CudaStream(stream);
}

CudaEvent make_event(bool timed) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
        "cudaEventCreateWithFlags");
  return CudaEvent(event);
}

DeviceMemory device_memory(std::int64_t bytes) {
  void* memory = nullptr;
  const auto error = cudaMalloc(&memory, at_least_one(bytes));
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // not sticky
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    fail(ExitCode::kOutOfMemory,
         "the GPU has {} bytes free of {}, {} are needed in one piece; end what else uses it, or use more ranks", free,
         total, bytes);
  }
  check(error, "cudaMalloc");
  return DeviceMemory(memory);
}

HostMemory host_memory(std::int64_t bytes) {
  void* memory = nullptr;
  const auto error = cudaMallocHost(&memory, at_least_one(bytes));
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    fail(ExitCode::kOutOfMemory, "the host has no {} bytes of memory that can be pinned", bytes);
  }
  check(error, "cudaMallocHost");
  return HostMemory(memory);
}

}  // namespace tessera::device::cuda
