#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace tessera::partition {

/// Numbers that the cost model reads; nothing else about a machine enters a plan.
struct Hardware {
  std::string name;
  bool gpu = false;                      // the devices are GPUs: what kernels read is copied to them
  double flops_f32 = 0, flops_bf16 = 0;  // a second, of one device
  double memory_bytes_per_s = 0;
  double kernel_us = 5;  // launching one
  struct Link {
    double latency_us = 0;
    double bytes_per_s = 0;
  };
  Link local;   // between devices of one node
  Link remote;  // between nodes
  std::int64_t devices_per_node = 1;
  std::int64_t memory_bytes = 0;   // 0: no limit
  std::int64_t scratch_bytes = 0;  // workspace of the libraries, beside what the kernels need
  // How NCCL shall run there; no cost depends on it.
  bool nccl_windows = false;         // the communication region is a symmetric window of every communicator
  std::int64_t nccl_max_blocks = 0;  // thread blocks of a collective (maxCTAs); 0: NCCL's choice
};

/// A built-in profile (cpu, a100-80, h100, h200, b200) or a JSON file that `devices --measure` wrote. Throws Error
/// (config).
Hardware load_hardware(const std::string& name_or_file);
std::string to_json(const Hardware& hardware);

}  // namespace tessera::partition
