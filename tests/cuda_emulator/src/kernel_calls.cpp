// Launches of kernels, and what is asked about them.
#include <map>
#include <mutex>

#include "capture.h"
#include "device.h"
#include "fault.h"
#include "grid.h"
#include "memory.h"
#include "settings.h"
#include "streams.h"
#include "thread_state.h"
#include "traffic.h"

namespace tessera::cuda_emulator {
namespace {

constexpr std::size_t kDefaultShared = std::size_t(48) * 1024;

/// What the process knows of its kernels. One is loaded when it is first launched or asked about.
class Kernels {
 public:
  void load(const void* kernel) { of(kernel); }
  bool is_loaded(const void* kernel) const {
    const std::lock_guard lock(mutex_);
    return limits_.contains(kernel);
  }
  void allow_shared(const void* kernel, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    limits_[kernel] = std::max(bytes, kDefaultShared);
  }
  /// Bytes of dynamic shared memory that a launch may ask for.
  std::size_t of(const void* kernel) {
    const std::lock_guard lock(mutex_);
    return limits_.try_emplace(kernel, kDefaultShared).first->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const void*, std::size_t> limits_;
};

Kernels& kernels() {
  static Kernels k;
  return k;
}

bool is_valid(const cudaLaunchConfig_t& c) {
  const dim3 g = c.gridDim, b = c.blockDim;
  return g.x > 0 && g.y > 0 && g.z > 0 && b.x > 0 && b.y > 0 && b.z > 0 && g.x <= 0x7FFFFFFF && g.y <= 65535 &&
         g.z <= 65535 && b.x <= 1024 && b.y <= 1024 && b.z <= 64 && std::size_t(b.x) * b.y * b.z <= 1024;
}

// Kernels are loaded when they are first used, which may allocate and wait.
void check_loaded(const void* kernel, cudaStream_t stream) {
  if (kernels().is_loaded(kernel) || capture_of(stream) == nullptr) return;
  misuse("a kernel's first launch is captured: launch it before, or load it by cudaFuncGetAttributes");
}

Poll make_poll(const Launch& launch) {
  if (fails_now(Failure::kHang)) return [] { return false; };
  const bool fails = fails_now(Failure::kLaunch);
  return [launch, fails] {
    add_launch();
    if (fails)
      lose_context(cudaErrorIllegalAddress);
    else
      run_grid(launch);
    if (const std::string wrong = check_canaries(); !wrong.empty()) fault(wrong);
    return true;
  };
}

}  // namespace

cudaError_t enqueue_kernel(const cudaLaunchConfig_t& c, const void* kernel, std::shared_ptr<const KernelCall> call) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (!is_valid(c)) return failed(cudaErrorInvalidConfiguration);
  check_loaded(kernel, c.stream);
  if (c.dynamicSmemBytes > kernels().of(kernel)) return failed(cudaErrorInvalidValue);
  if (c.stream != nullptr && c.stream->device != this_thread.device) return failed(cudaErrorInvalidResourceHandle);
  const Launch launch{c.gridDim, c.blockDim, c.dynamicSmemBytes, std::move(call)};
  return enqueue(c.stream, {"kernel", [launch] { return make_poll(launch); }});
}

}  // namespace tessera::cuda_emulator

using namespace tessera::cuda_emulator;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || std::size_t(value) > kMaxDynamicShared) return failed(cudaErrorInvalidValue);
    kernels().allow_shared(kernel, std::size_t(value));
  }
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->maxDynamicSharedSizeBytes = int(kernels().of(kernel));
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads, size_t) {
  *blocks = 2048 / threads;
  return cudaSuccess;
}

}  // extern "C"
