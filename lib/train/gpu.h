#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "config/spec.h"
#include "device/device.h"

namespace tessera::train {

/// What a rank sees of the GPUs of its host.
struct GpuView {
  std::string host;
  int local_rank = 0, local_size = 1;     // among the ranks of the host, as MPI tells
  std::string launcher_rank = {};         // the same, as the launcher's variable tells; "": none is set
  std::vector<std::string> bus_ids = {};  // of the GPUs that are visible, in their order
  std::string why_none = {};              // where there are none
};

/// The index of each rank's GPU among those it sees: the only one, or that of its rank on the host. Throws Error
/// (config, launch) that names the rank and the host: no GPU, fewer GPUs than ranks, two ranks with one GPU, a launcher
/// that counts otherwise than MPI.
std::vector<int> assign_gpus(const std::vector<GpuView>& ranks);

/// The device of a run, the same kind on all ranks.
struct DeviceChoice {
  device::DeviceKind kind = device::DeviceKind::kCpu;
  std::string reason;    // "device: cuda", "auto: this build has no CUDA backend; use device: cpu"
  int index = 0;         // of this rank's GPU
  std::string hardware;  // the profile of that GPU where the config names none
};

/// `device: auto` takes GPUs if every rank has one. Collective. Throws Error (config), with the place of `device:`,
/// where GPUs are asked for and cannot be had.
DeviceChoice choose_device(const config::Spec& spec, comm::World& world);

/// "h200" of "NVIDIA H200"; of a card without a profile the nearest older one, by its compute capability.
std::string hardware_of_gpu(const std::string& name, const std::string& capability);

}  // namespace tessera::train
