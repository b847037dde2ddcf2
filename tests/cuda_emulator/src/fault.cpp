#include "fault.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <unistd.h>
#include <utility>

#include "settings.h"
#include "thread_state.h"

namespace tessera::cuda_emulator {
namespace {

struct Faults {
  std::mutex mutex;
  std::string first;
  std::set<std::string> printed;
};

// Never destroyed: the thread that runs streams outlives main.
Faults& faults() {
  static Faults& f = *new Faults;
  return f;
}

std::atomic<cudaError_t> lost{cudaSuccess};

// After everything else of the process. A fault that nobody took shows even if all calls' errors were ignored.
__attribute__((destructor)) void end_with_fault() {
  {
    const std::lock_guard lock(faults().mutex);
    if (faults().first.empty()) return;
  }
  std::fflush(nullptr);
  _exit(98);
}

}  // namespace

void misuse(const std::string& what) {
  const std::lock_guard lock(faults().mutex);
  if (faults().printed.insert(what).second) {
    const std::string rank = mpi_rank();
    std::fprintf(stderr, "cuda emulator%s: %s\n", rank.empty() ? "" : (", rank " + rank).c_str(), what.c_str());
  }
  if (faults().first.empty()) faults().first = what;
}

void fault(const std::string& what) {
  lose_context(cudaErrorIllegalAddress);
  misuse(what);
}

void lose_context(cudaError_t error) {
  cudaError_t none = cudaSuccess;
  lost.compare_exchange_strong(none, error);
}

cudaError_t sticky_error() { return lost; }

cudaError_t failed(cudaError_t error) { return this_thread.last_error = error; }

bool refused(const char* call, const std::string& wrong) {
  if (wrong.empty()) return false;
  misuse(std::string(call) + ": " + wrong);
  return true;
}

std::string take_fault() {
  const std::lock_guard lock(faults().mutex);
  lost = cudaSuccess;
  faults().printed.clear();
  return std::exchange(faults().first, "");
}

}  // namespace tessera::cuda_emulator

using tessera::cuda_emulator::sticky_error;
using tessera::cuda_emulator::this_thread;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = std::exchange(this_thread.last_error, cudaSuccess);
  return sticky_error() != cudaSuccess ? sticky_error() : error;
}

cudaError_t cudaPeekAtLastError() { return sticky_error() != cudaSuccess ? sticky_error() : this_thread.last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define NAME(e) \
  case e:       \
    return #e;
    NAME(cudaSuccess)
    NAME(cudaErrorInvalidValue)
    NAME(cudaErrorMemoryAllocation)
    NAME(cudaErrorInvalidConfiguration)
    NAME(cudaErrorInsufficientDriver)
    NAME(cudaErrorNoDevice)
    NAME(cudaErrorInvalidDevice)
    NAME(cudaErrorInvalidResourceHandle)
    NAME(cudaErrorIllegalState)
    NAME(cudaErrorIllegalAddress)
    NAME(cudaErrorNotSupported)
    NAME(cudaErrorNotReady)
    NAME(cudaErrorStreamCaptureUnsupported)
    NAME(cudaErrorStreamCaptureInvalidated)
    NAME(cudaErrorStreamCaptureMerge)
    NAME(cudaErrorStreamCaptureUnmatched)
    NAME(cudaErrorStreamCaptureUnjoined)
    NAME(cudaErrorStreamCaptureIsolation)
    NAME(cudaErrorStreamCaptureImplicit)
    NAME(cudaErrorCapturedEvent)
    NAME(cudaErrorStreamCaptureWrongThread)
#undef NAME
    default:
      return "unrecognized error code";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorNotReady:
      return "device not ready";
    default:
      return cudaGetErrorName(error);
  }
}

}  // extern "C"
