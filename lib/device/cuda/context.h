#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <functional>
#include <string>
#include <vector>

#include "device/cuda/blas.h"
#include "device/cuda/handles.h"
#include "device/device.h"
#include "device/tuning.h"

namespace tessera::device::cuda {

/// Where kernels leave what they find wrong in the data; read when the host waits anyway. A find is an index and a
/// value, the smallest index counts.
class Checks {
 public:
  Checks() = default;
  /// `stream`: on which the places are cleared now.
  explicit Checks(cudaStream_t stream);

  /// A place of its own for a kernel: a device address of a 64-bit word that holds kNothing. The kernel takes the
  /// minimum of it and find(index, value). `sentence` tells what is wrong.
  std::uint64_t* add(std::function<std::string(std::int64_t index, std::int32_t value)> sentence);

  /// Queues the copy of all finds to the host.
  void fetch(cudaStream_t stream);
  /// After that copy has ended: throws Error (data) with the first find's sentence.
  void look();

  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};

 private:
  static constexpr std::size_t kMost = 1024;  // kernels that read ids or labels

  DeviceMemory finds_;
  HostMemory host_;
  std::vector<std::function<std::string(std::int64_t, std::int32_t)>> sentences_;
};

/// Working memory that all kernels of the compute stream share.
class Scratch {
 public:
  Scratch() = default;
  Scratch(void* memory, std::int64_t bytes) : memory_(memory), bytes_(bytes) {}

  /// Its begin, for a kernel that uses so many bytes. Throws Error (internal) where there are fewer.
  template <class T>
  T* take(std::int64_t bytes) const {
    TESSERA_CHECK(bytes <= bytes_, "a kernel uses {} bytes of {} bytes of working memory", bytes, bytes_);
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// What the kernels of a device share. Outlives them.
struct Context {
  std::array<CudaStream, 2> streams;  // by Stream
  DeviceMemory params;                // a StepParams
  Checks checks;
  Scratch scratch;
  Tuning tuning;
  BlasHandle blas;
  bool tensor_float_32 = false;

  cudaStream_t stream(Stream s) const { return streams[static_cast<std::size_t>(s)].get(); }
};

}  // namespace tessera::device::cuda
