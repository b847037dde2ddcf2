// The devices of a host: as many H200-like cards as settings() has, on NVLink.
#include "device.h"

#include <cstdio>
#include <cstring>

#include "cuda_runtime.h"
#include "fault.h"
#include "grid.h"
#include "settings.h"
#include "thread_state.h"

namespace tessera::cuda_emulator {
namespace {

constexpr int kMultiprocessors = 132, kMajor = 9, kMinor = 0, kL2Bytes = 60 << 20;

bool is_device(int device) { return device >= 0 && device < settings().gpus; }
int bus_number(int device) { return 0x18 + 0x10 * device; }

}  // namespace

// A runtime works with every driver of its major version or a later one.
cudaError_t device_error() {
  if (settings().driver / 1000 < CUDART_VERSION / 1000) return failed(cudaErrorInsufficientDriver);
  if (settings().gpus <= 0) return failed(cudaErrorNoDevice);
  return sticky_error();
}

}  // namespace tessera::cuda_emulator

using namespace tessera::cuda_emulator;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = settings().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  *count = settings().gpus;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  this_thread.device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  *device = this_thread.device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  std::memset(p, 0, sizeof *p);
  std::snprintf(p->name, sizeof p->name, "Emulated H200");
  p->uuid.bytes[0] = char(device + 1);
  p->totalGlobalMem = settings().memory;
  p->major = kMajor, p->minor = kMinor;
  p->multiProcessorCount = kMultiprocessors;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7FFFFFFF, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->sharedMemPerBlock = std::size_t(48) * 1024;
  p->sharedMemPerBlockOptin = kMaxDynamicShared;
  p->sharedMemPerMultiprocessor = std::size_t(228) * 1024;
  p->l2CacheSize = kL2Bytes;
  p->memoryBusWidth = 6144;
  p->asyncEngineCount = 3;
  p->concurrentKernels = p->unifiedAddressing = 1;
  p->pciBusID = bus_number(device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = kMajor;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = kMinor;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 * 1024;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = int(kMaxDynamicShared);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 228 * 1024;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = 32;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrL2CacheSize:
      *value = kL2Bytes;
      break;
    case cudaDevAttrClockRate:
      *value = 1980000;
      break;  // kHz
    case cudaDevAttrMemoryClockRate:
      *value = 3201000;
      break;  // kHz
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = 6144;
      break;  // bits
    case cudaDevAttrPciBusId:
      *value = bus_number(device);
      break;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
      *value = 0;
      break;
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCooperativeLaunch:
      *value = 0;
      break;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrStreamPrioritiesSupported:
      *value = 1;
      break;
    default:
      misuse("cudaDeviceGetAttribute: the emulator has no value for attribute " + std::to_string(int(attribute)));
      return failed(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  const int needed = std::snprintf(text, std::size_t(size), "0000:%02X:00.0", bus_number(device));
  return needed < size ? cudaSuccess : failed(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (!is_device(device) || !is_device(peer)) return failed(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int device, int peer) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (!is_device(device) || !is_device(peer) || device == peer) return failed(cudaErrorInvalidDevice);
  *value = attribute == cudaDevP2PAttrPerformanceRank || attribute == cudaDevP2PAttrCudaArrayAccessSupported ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  *least = 0, *greatest = -5;
  return cudaSuccess;
}

}  // extern "C"
