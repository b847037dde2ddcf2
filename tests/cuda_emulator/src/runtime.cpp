// The runtime's calls on streams, events, memory and kernels. Each checks what a device would refuse, then enqueues.
#include <cstring>
#include <map>
#include <mutex>

#include "device.h"
#include "fault.h"
#include "grid.h"
#include "memory.h"
#include "settings.h"
#include "streams.h"
#include "thread_state.h"

namespace tessera::cuda_emulator {
namespace {

constexpr std::size_t kDefaultShared = std::size_t(48) * 1024;

// How much dynamic shared memory a kernel has been allowed.
class SharedLimits {
 public:
  void set(const void* kernel, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    limits_[kernel] = bytes;
  }
  std::size_t of(const void* kernel) const {
    const std::lock_guard lock(mutex_);
    const auto i = limits_.find(kernel);
    return i == limits_.end() ? kDefaultShared : std::max(i->second, kDefaultShared);
  }

 private:
  mutable std::mutex mutex_;
  std::map<const void*, std::size_t> limits_;
};

SharedLimits& shared_limits() {
  static SharedLimits limits;
  return limits;
}

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

bool is_valid(const cudaLaunchConfig_t& c) {
  const dim3 g = c.gridDim, b = c.blockDim;
  return g.x > 0 && g.y > 0 && g.z > 0 && b.x > 0 && b.y > 0 && b.z > 0 && g.x <= 0x7FFFFFFF && g.y <= 65535 &&
         g.z <= 65535 && b.x <= 1024 && b.y <= 1024 && b.z <= 64 && std::size_t(b.x) * b.y * b.z <= 1024;
}

Task hanging_kernel() {
  return {"kernel", [] { return Poll([] { return false; }); }};
}

}  // namespace

cudaError_t enqueue_kernel(const cudaLaunchConfig_t& c, const void* kernel, std::shared_ptr<const KernelCall> call) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (!is_valid(c)) return failed(cudaErrorInvalidConfiguration);
  if (c.dynamicSmemBytes > shared_limits().of(kernel)) return failed(cudaErrorInvalidValue);
  if (c.stream != nullptr && c.stream->device != this_thread.device) return failed(cudaErrorInvalidResourceHandle);
  if (fails_now(Failure::kHang)) return enqueue(c.stream, hanging_kernel());
  if (fails_now(Failure::kLaunch))
    return enqueue(c.stream, once("kernel", [] { lose_context(cudaErrorIllegalAddress); }));
  return enqueue(c.stream,
                 once("kernel", [launch = Launch{c.gridDim, c.blockDim, c.dynamicSmemBytes, std::move(call)}] {
                   run_grid(launch);
                   if (const std::string wrong = check_canaries(); !wrong.empty()) fault(wrong);
                 }));
}

}  // namespace tessera::cuda_emulator

using namespace tessera::cuda_emulator;

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if ((flags & cudaStreamNonBlocking) == 0) {
    misuse("a stream without cudaStreamNonBlocking waits for the default stream");
    return failed(cudaErrorInvalidValue);
  }
  *stream = scheduler().create(this_thread.device, priority);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  *priority = stream->priority;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  scheduler().destroy(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return scheduler().synchronize(stream); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return scheduler().query(stream); }
cudaError_t cudaDeviceSynchronize() { return scheduler().synchronize_device(this_thread.device); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  *event = new CUevent_st{std::make_shared<Event>(), (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return scheduler().record(stream, event->event); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return scheduler().wait_event(stream, event->event);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return scheduler().synchronize(*event->event); }
cudaError_t cudaEventQuery(cudaEvent_t event) { return scheduler().query(*event->event); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  if (!from->timed || !to->timed) return failed(cudaErrorInvalidResourceHandle);
  return scheduler().elapsed(*from->event, *to->event, ms);
}

cudaError_t cudaMalloc(void** p, size_t size) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  *p = fails_now(Failure::kMalloc) ? nullptr : allocate(size, Use::kPlain);
  return *p == nullptr ? failed(cudaErrorMemoryAllocation) : cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  if (p == nullptr) return cudaSuccess;
  cudaDeviceSynchronize();
  return release(p) ? sticky_error() : failed(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  const Copy c{to, from, size, kind};
  if (refused("cudaMemcpyAsync", check(c, Timing::kAsynchronous))) return failed(cudaErrorInvalidValue);
  return enqueue(stream, once("copy", [c] {
                   const std::string wrong = check(c, Timing::kAsynchronous);
                   if (wrong.empty())
                     std::memcpy(c.to, c.from, c.size);
                   else
                     fault("a copy when its turn came: " + wrong);
                 }));
}

cudaError_t cudaMemsetAsync(void* p, int value, size_t size, cudaStream_t stream) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (refused("cudaMemsetAsync", check_range(p, size))) return failed(cudaErrorInvalidValue);
  return enqueue(stream, once("set", [=] {
                   const std::string wrong = check_range(p, size);
                   if (wrong.empty())
                     std::memset(p, value, size);
                   else
                     fault("a set when its turn came: " + wrong);
                 }));
}

// Not ordered with non-blocking streams, as on a device.
cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  const Copy c{to, from, size, kind};
  if (refused("cudaMemcpy", check(c, Timing::kSynchronous))) return failed(cudaErrorInvalidValue);
  CUstream_st* own = scheduler().create(this_thread.device, 0);
  enqueue(own, once("copy", [c] { std::memcpy(c.to, c.from, c.size); }));
  const cudaError_t error = scheduler().synchronize(own);
  scheduler().destroy(own);
  return error;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || std::size_t(value) > kMaxDynamicShared) return failed(cudaErrorInvalidValue);
    shared_limits().set(kernel, std::size_t(value));
  }
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->maxDynamicSharedSizeBytes = int(shared_limits().of(kernel));
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads, size_t) {
  *blocks = 2048 / threads;
  return cudaSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
