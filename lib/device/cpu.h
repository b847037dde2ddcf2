#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "device/device.h"

namespace tessera::device {

/// What the CPU backend's results depend on besides the program: ranks compare these at start.
struct CpuFeatures {
  std::string model;          // "AMD EPYC 7571": /proc/cpuinfo's model name
  std::string isa;            // highest level that may be used: "sse4", "avx2" or "avx3" (AVX-512)
  std::string onednn;         // "2.6.3"
  std::string openblas;       // "0.3.21"
  std::string openblas_core;  // the kernels it picked when it was loaded: "Zen"
  std::set<int> cores;        // that this process may run on

  bool operator==(const CpuFeatures&) const = default;
};
CpuFeatures cpu_features();

/// Order of the levels, for finding the lowest: 0 for "sse4", 1 "avx2", 2 "avx3". Throws Error (internal) for another
/// name.
int isa_rank(const std::string& isa);

/// No code above this level runs in oneDNN and in our loops from now on. To be called before the first kernel is made.
/// OpenBLAS chooses its kernels when it is loaded: where openblas_core differs between ranks, call exclude_openblas
/// too.
void limit_cpu_isa(const std::string& isa);

/// Takes OpenBLAS out of the candidates for matmul in this process.
void exclude_openblas();

/// Speeds measured on a device, for a hardware profile.
struct DeviceSpeed {
  double flops_f32 = 0;       // of a matmul 1024 x 1024 x 1024, per second
  double bandwidth = 0;       // bytes read and written per second by a copy that exceeds the caches
  double kernel_seconds = 0;  // one kernel on almost no data
};
DeviceSpeed measure(Device& device);

}  // namespace tessera::device
