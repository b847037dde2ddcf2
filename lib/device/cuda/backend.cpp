#include <algorithm>
#include <array>
#include <cctype>
#include <cublasLt.h>

#include <fmt/format.h>

#include "device/cuda/check.h"
#include "device/cuda/device.h"

namespace tessera::device {
namespace cuda {
namespace {

/// The oldest driver for a runtime, by its major version: NVIDIA, CUDA Compatibility, table of minimum drivers.
const char* least_driver(int runtime) { return runtime >= 13000 ? "580" : "525"; }

int count_gpus() {
  int runtime = 0, driver = 0, count = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const auto asked = cudaDriverGetVersion(&driver);
  if (asked != cudaSuccess || driver == 0)
    fail(ExitCode::kConfig, "there is no NVIDIA driver here; install one (version {} or newer), or use device: cpu",
         least_driver(runtime));
  if (driver / 1000 < runtime / 1000)
    fail(
        ExitCode::kConfig,
        "the NVIDIA driver is made for CUDA {}, this build needs CUDA {}: update the driver to version {} or newer, or "
        "use device: cpu",
        cuda_version(driver), cuda_version(runtime), least_driver(runtime));
  const auto error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
    fail(ExitCode::kConfig,
         "the NVIDIA driver sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use device: cpu");
  check(error, "cudaGetDeviceCount");
  return count;
}

GpuInfo gpu_info(int index, int count) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  std::array<char, 32> bus{};
  check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index), "cudaDeviceGetPCIBusId");
  std::transform(bus.begin(), bus.end(), bus.begin(), [](unsigned char c) { return std::tolower(c); });
  GpuInfo info{.index = index,
               .name = properties.name,
               .bus_id = bus.data(),
               .capability = fmt::format("{}.{}", properties.major, properties.minor),
               .multiprocessors = properties.multiProcessorCount,
               .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)};
  for (int other = 0; other < count; ++other) {
    int reachable = 0;
    if (other != index) check(cudaDeviceCanAccessPeer(&reachable, index, other), "cudaDeviceCanAccessPeer");
    if (reachable != 0) info.peers.push_back(other);
  }
  return info;
}

std::vector<GpuInfo> gpus() {
  const int count = count_gpus();
  int current = 0;  // the thread's device stays what it was
  check(cudaGetDevice(&current), "cudaGetDevice");
  std::vector<GpuInfo> list;
  for (int index = 0; index < count; ++index) list.push_back(gpu_info(index, count));
  check(cudaSetDevice(current), "cudaSetDevice");
  return list;
}

GpuMemory memory(int index) {
  int current = 0;
  check(cudaGetDevice(&current), "cudaGetDevice");
  check(cudaSetDevice(index), "cudaSetDevice");
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  check(cudaSetDevice(current), "cudaSetDevice");
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

std::unique_ptr<Device> make_checked_device(const CudaOptions& options) {
  const int count = count_gpus();
  if (options.index < 0 || options.index >= count)
    fail(ExitCode::kConfig, "there is no GPU {} here, {} {} visible", options.index, count, count == 1 ? "is" : "are");
  return make_device(options);
}

}  // namespace

CudaLibraries libraries() {
  CudaLibraries l;
  check(cudaDriverGetVersion(&l.driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&l.runtime), "cudaRuntimeGetVersion");
  const auto version = cublasLtGetVersion();  // 130100; 120805 of 12.8.5
  l.cublaslt = fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  return l;
}

}  // namespace cuda

/// What the loader looks up in the shared object.
extern "C" __attribute__((visibility("default"))) const CudaBackend* tessera_cuda_backend() {
  static const CudaBackend kBackend{cuda::gpus, cuda::memory, cuda::libraries, cuda::make_checked_device};
  return &kBackend;
}

}  // namespace tessera::device
