#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

// The CUDA backend as other rooms see it. It is a shared object of its own, opened when a GPU is asked for, so that one
// binary serves machines with and without CUDA libraries.
namespace tessera::device {

struct GpuInfo {
  int index = 0;           // as this process sees it
  std::string name;        // "NVIDIA H200"
  std::string bus_id;      // "0000:19:00.0": with the host it names the card, whatever CUDA_VISIBLE_DEVICES says
  std::string capability;  // "9.0"
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  std::vector<int> peers = {};  // indices of the GPUs whose memory it can read directly (NVLink or PCIe)
};

/// "12.8": of a version as CUDA counts it, 12080.
inline std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

struct CudaLibraries {
  int driver = 0, runtime = 0;  // 13000
  std::string cublaslt;         // "13.1.0"
};

struct GpuMemory {
  std::int64_t free_bytes = 0, total_bytes = 0;
};

struct CudaOptions {
  int index = 0;
  std::string matmul_cache = {};  // file of the tuning; "": time anew
  bool tensor_float_32 = false;   // f32 matmuls may round their operands to 10 bits of mantissa
};

/// Entry points of the shared object.
struct CudaBackend {
  /// Throws Error (config) without a driver, with one that is too old for the runtime, or without a GPU.
  std::vector<GpuInfo> (*gpus)();
  /// What a GPU can still hand out, and what it has; makes its context.
  GpuMemory (*memory)(int index);
  CudaLibraries (*libraries)();
  /// The GPU with this index; its context is made here. Throws Error (config).
  std::unique_ptr<Device> (*make_device)(const CudaOptions& options);
};

/// Throws Error (config), one sentence: this build has no CUDA backend, or why it can't be opened here.
const CudaBackend& cuda_backend();

}  // namespace tessera::device
