#include <iostream>
#include <sstream>

#include "comm/nccl.h"
#include "core/text.h"
#include "device/cpu.h"
#include "device/cuda.h"
#include "job.h"
#include "report/answers.h"
#include "train/agree.h"
#include "train/launch.h"
#include "train/measure.h"
#include "train/process_memory.h"
#include "verbs.h"

namespace tessera::trainer {
namespace {

std::vector<report::DeviceEntry> cpus(comm::World& world, const train::Launch& launch) {
  std::vector<report::DeviceEntry> entries;
  const auto own = fmt::format("{}\n{}\n{}\n{}", world.host(), device::cpu_features().model, launch.device.threads,
                               train::available_bytes());
  for (const auto& text : world.gather(own)) {
    report::DeviceEntry entry;
    entry.rank = static_cast<int>(entries.size());
    entry.name = fmt::format("cpu:{}", entry.rank);
    std::istringstream lines(text);
    std::getline(lines, entry.host);
    std::getline(lines, entry.model);
    lines >> entry.threads >> entry.memory_bytes;
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string nccl_version() {
  try {
    return "NCCL " + comm::nccl_backend().version();
  } catch (const Error&) {
    return "no NCCL";
  }
}

/// One line a GPU of this host, its fields apart by tabs.
std::string own_gpus(const std::string& host) {
  const auto& backend = device::cuda_backend();
  std::string lines;
  for (const auto& gpu : backend.gpus()) {
    const auto libraries = backend.libraries();
    std::vector<std::string> peers;
    for (const int peer : gpu.peers) peers.push_back(std::to_string(peer));
    lines += join({fmt::format("cuda:{}", gpu.index), host, gpu.name, gpu.capability, gpu.bus_id,
                   std::to_string(gpu.memory_bytes), std::to_string(backend.memory(gpu.index).free_bytes),
                   join(peers, " "), device::cuda_version(libraries.driver),
                   fmt::format("CUDA {}, cuBLASLt {}, {}", device::cuda_version(libraries.runtime), libraries.cublaslt,
                               nccl_version())},
                  "\t") +
             "\n";
  }
  return lines;
}

report::GpuEntry to_entry(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, '\t');) fields.push_back(field);
  TESSERA_CHECK(fields.size() == 10, "a GPU of {} fields", fields.size());
  report::GpuEntry gpu{.name = fields[0],
                       .host = fields[1],
                       .model = fields[2],
                       .capability = fields[3],
                       .bus_id = fields[4],
                       .peers = {},
                       .driver = fields[8],
                       .libraries = fields[9]};
  gpu.memory_bytes = std::stoll(fields[5]);
  gpu.free_bytes = std::stoll(fields[6]);
  std::istringstream peers(fields[7]);
  for (int peer = 0; peers >> peer;) gpu.peers.push_back(peer);
  return gpu;
}

/// Of every host, by its first rank. `why_none`: the sentence of the first host that has none.
std::vector<report::GpuEntry> gpus(comm::World& world, std::string& why_none) {
  std::string own;
  try {
    if (world.local_rank() == 0) own = own_gpus(world.host());
  } catch (const Error& error) {
    own = fmt::format("!{}", error.what());
  }
  std::vector<report::GpuEntry> entries;
  for (const auto& text : world.gather(own)) {
    if (text.starts_with('!')) {
      if (why_none.empty()) why_none = text.substr(1);
      continue;
    }
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) entries.push_back(to_entry(line));
  }
  return entries;
}

}  // namespace

ExitCode devices(const Options& options, comm::World& world) {
  const auto launch = train::agree_on_launch(world, true, 0);
  print_warnings(world, launch.warnings);
  if (options.measure) {
    const auto profile = train::measure_hardware(
        world, launch, options.type == "gpu" ? device::DeviceKind::kCuda : device::DeviceKind::kCpu);
    if (world.rank() == 0) std::cout << partition::to_json(profile) << '\n';
    return ExitCode::kDone;
  }
  std::string why_no_gpu;
  const auto cpu_entries = options.type == "gpu" ? std::vector<report::DeviceEntry>{} : cpus(world, launch);
  const auto gpu_entries = options.type == "cpu" ? std::vector<report::GpuEntry>{} : gpus(world, why_no_gpu);
  if (world.rank() != 0) return ExitCode::kDone;
  if (options.json)
    std::cout << report::devices_json(cpu_entries, gpu_entries);
  else
    report::write_devices(std::cout, cpu_entries, gpu_entries);
  if (!why_no_gpu.empty() && gpu_entries.empty()) std::cerr << "no gpu: " + why_no_gpu + "\n";
  return ExitCode::kDone;
}

}  // namespace tessera::trainer
