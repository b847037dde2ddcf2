#include <iostream>
#include <sstream>

#include "device/cpu.h"
#include "job.h"
#include "report/answers.h"
#include "train/launch.h"
#include "train/measure.h"
#include "train/process_memory.h"
#include "verbs.h"

namespace tessera::trainer {

ExitCode devices(const Options& options, comm::World& world) {
  const auto launch = train::agree_on_launch(world, true, 0);
  print_warnings(world, launch.warnings);
  if (options.measure) {
    const auto profile = train::measure_hardware(world, launch);
    if (world.rank() == 0) std::cout << partition::to_json(profile) << '\n';
    return ExitCode::kDone;
  }
  std::vector<report::DeviceEntry> entries;
  if (options.type != "gpu") {  // this build computes on CPUs
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
  }
  if (world.rank() != 0) return ExitCode::kDone;
  if (options.json)
    std::cout << report::devices_json(entries);
  else if (entries.empty())
    std::cerr << "no gpu: this build has no CUDA backend\n";
  else
    report::write_devices(std::cout, entries);
  return ExitCode::kDone;
}

}  // namespace tessera::trainer
