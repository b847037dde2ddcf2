#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "train/advise.h"
#include "train/verify.h"

namespace tessera::report {

/// The candidates side by side and the verdict.
void write_advice(std::ostream& to, const train::Advice& advice);
std::string advice_json(const train::Advice& advice);

/// The worst differences, then the verdict.
void write_verification(std::ostream& to, const train::VerifyResult& result, std::int64_t steps);
std::string verification_json(const train::VerifyResult& result);

/// {"loss":0.1,...}
std::string logs_json(const train::Logs& logs);

/// A device of the job, as Keras's list_devices names it.
struct DeviceEntry {
  std::string name;  // "cpu:0"
  std::string host;
  int rank = 0;
  std::string model;
  int threads = 1;
  std::int64_t memory_bytes = 0;  // of the node, shared by its ranks
};
/// A GPU of a host.
struct GpuEntry {
  std::string name;  // "cuda:0"
  std::string host;
  std::string model;       // "NVIDIA H200"
  std::string capability;  // "9.0"
  std::string bus_id;
  std::int64_t memory_bytes = 0, free_bytes = 0;
  std::vector<int> peers;         // whose memory it reads directly
  std::string driver, libraries;  // "13.0", "CUDA 13.0, cuBLASLt 13.1.0, NCCL 2.28.9"
};

void write_devices(std::ostream& to, const std::vector<DeviceEntry>& devices, const std::vector<GpuEntry>& gpus);
std::string devices_json(const std::vector<DeviceEntry>& devices, const std::vector<GpuEntry>& gpus);

}  // namespace tessera::report
