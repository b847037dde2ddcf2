// The runtime's calls on memory: what a device would refuse, then the copy when its turn comes.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "capture.h"
#include "device.h"
#include "fault.h"
#include "memory.h"
#include "settings.h"
#include "thread_state.h"
#include "traffic.h"

namespace {

using namespace tessera::cuda_emulator;

enum class Timing { kSynchronous, kAsynchronous };

struct Copy {
  void* to;
  const void* from;
  std::size_t size;
  cudaMemcpyKind kind;

  bool to_device() const {
    return kind == cudaMemcpyDefault ? is_device_address(to)
                                     : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  }
  bool from_device() const {
    return kind == cudaMemcpyDefault ? is_device_address(from)
                                     : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  }
};

std::string check_side(const char* side, const void* p, std::size_t size, bool on_device, Timing timing) {
  if (size == 0) return "";
  if (on_device) {
    const std::string wrong = check_range(p, size);
    return wrong.empty() ? "" : std::string("the ") + side + ": " + wrong;
  }
  if (is_device_address(p)) return std::string("the ") + side + " is device memory";
  if (timing == Timing::kAsynchronous && !is_pinned(p, size))
    return std::string("the ") + side + " of an asynchronous copy isn't pinned";
  return "";
}

std::string check(const Copy& c, Timing timing) {
  const std::string wrong = check_side("target", c.to, c.size, c.to_device(), timing);
  return wrong.empty() ? check_side("source", c.from, c.size, c.from_device(), timing) : wrong;
}

void run(const Copy& c) {
  std::memcpy(c.to, c.from, c.size);
  add_copy({c.from_device() ? c.size : 0, c.to_device() ? c.size : 0});
}

cudaError_t allocate_pinned(void** p, std::size_t size) {
  if (breaks_capture("an allocation of pinned memory")) return failed(cudaErrorStreamCaptureUnsupported);
  if (posix_memalign(p, 4096, std::max<std::size_t>(size, 1)) != 0) return failed(cudaErrorMemoryAllocation);
  add_pinned(*p, size);
  return cudaSuccess;
}

}  // namespace

using namespace tessera::cuda_emulator;

extern "C" {

cudaError_t cudaMalloc(void** p, size_t size) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (breaks_capture("cudaMalloc")) return failed(cudaErrorStreamCaptureUnsupported);
  *p = fails_now(Failure::kMalloc) ? nullptr : allocate(size, Use::kPlain);
  return *p == nullptr ? failed(cudaErrorMemoryAllocation) : cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  if (p == nullptr) return cudaSuccess;
  if (breaks_capture("cudaFree")) return failed(cudaErrorStreamCaptureUnsupported);
  if (const Allocation found = find_allocation(p); found.start != 0) scheduler().synchronize_device(found.device);
  return release(p) ? sticky_error() : failed(cudaErrorInvalidValue);
}

cudaError_t cudaMallocHost(void** p, size_t size) { return allocate_pinned(p, size); }
cudaError_t cudaHostAlloc(void** p, size_t size, unsigned) { return allocate_pinned(p, size); }

cudaError_t cudaFreeHost(void* p) {
  if (p == nullptr) return cudaSuccess;
  if (breaks_capture("cudaFreeHost")) return cudaErrorStreamCaptureUnsupported;
  scheduler().synchronize_device(kAllDevices);
  if (!remove_pinned(p)) return failed(cudaErrorInvalidValue);
  std::free(p);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  *total = settings().memory;
  *free = *total - std::min(*total, used_memory(this_thread.device));
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  *attributes = {};
  attributes->device = -1;
  attributes->hostPointer = const_cast<void*>(p);
  if (const Allocation found = find_allocation(p); found.start != 0) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = found.device;
    attributes->devicePointer = const_cast<void*>(p);
    attributes->hostPointer = nullptr;
  } else if (is_pinned(p, 1)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = this_thread.device;
    attributes->devicePointer = const_cast<void*>(p);
  } else {
    attributes->type = cudaMemoryTypeUnregistered;
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  const Copy c{to, from, size, kind};
  if (refused("cudaMemcpyAsync", check(c, Timing::kAsynchronous))) {
    breaks_capture("cudaMemcpyAsync", stream);
    return failed(cudaErrorInvalidValue);
  }
  return enqueue(stream, once("copy", [c] {
                   const std::string wrong = check(c, Timing::kAsynchronous);
                   if (wrong.empty())
                     run(c);
                   else
                     fault("a copy when its turn came: " + wrong);
                 }));
}

cudaError_t cudaMemsetAsync(void* p, int value, size_t size, cudaStream_t stream) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (refused("cudaMemsetAsync", check_range(p, size))) return failed(cudaErrorInvalidValue);
  return enqueue(stream, once("set", [=] {
                   const std::string wrong = check_range(p, size);
                   if (!wrong.empty()) return fault("a set when its turn came: " + wrong);
                   std::memset(p, value, size);
                   add_copy({0, size});
                 }));
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return failed(cudaErrorInvalidPitchValue);
  for (size_t row = 0; row < height; ++row) {
    const cudaError_t error = cudaMemcpyAsync(static_cast<char*>(to) + row * to_pitch,
                                              static_cast<const char*>(from) + row * from_pitch, width, kind, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

// Not ordered with non-blocking streams, as on a device.
cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (breaks_capture("cudaMemcpy")) return failed(cudaErrorStreamCaptureUnsupported);
  const Copy c{to, from, size, kind};
  if (refused("cudaMemcpy", check(c, Timing::kSynchronous))) return failed(cudaErrorInvalidValue);
  CUstream_st* own = scheduler().create(this_thread.device, 0);
  enqueue(own, once("copy", [c] { run(c); }));
  const cudaError_t error = scheduler().synchronize(own);
  scheduler().destroy(own);
  return error;
}

}  // extern "C"
