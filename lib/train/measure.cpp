#include "train/measure.h"

#include <algorithm>
#include <chrono>

#include "comm/nccl.h"
#include "device/cpu.h"
#include "device/cuda.h"
#include "train/gpu.h"

namespace tessera::train {
namespace {

/// The fastest of some all-reduces of `count` floats, in seconds.
double all_reduce_seconds(comm::World& world, device::Device& device, float* region, std::int64_t count) {
  std::vector<std::int64_t> everyone;
  for (int rank = 0; rank < world.size(); ++rank) everyone.push_back(rank);
  auto& communicator = world.communicator(everyone);
  double best = 1e9;
  for (int trial = 0; trial < 10; ++trial) {
    world.barrier();
    const auto start = std::chrono::steady_clock::now();
    communicator.all_reduce({{region, region, count}}, DType::kF32, comm::Reduce::kSum);
    device.synchronize();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

partition::Hardware measure_hardware(comm::World& control, const Launch& launch, device::DeviceKind kind) {
  const bool gpu = kind == device::DeviceKind::kCuda;
  auto hardware = partition::load_hardware("cpu");
  hardware.name = "measured";
  hardware.gpu = gpu;
  config::Spec wish;
  wish.device = to_string(kind);
  const auto index = choose_device(wish, control).index;
  const auto device =
      gpu ? device::cuda_backend().make_device({.index = index}) : device::make_cpu_device(launch.device);
  const bool on_gpus = gpu && control.size() > 1;
  const auto gpu_world =
      on_gpus ? comm::nccl_backend().make_world(control, {.stream = device->native_stream(device::Stream::kComm)})
              : nullptr;
  auto& world = on_gpus ? *gpu_world : control;
  hardware.memory_bytes = gpu ? device::cuda_backend().memory(index).free_bytes : 0;
  const auto speed = device::measure(*device);
  hardware.flops_f32 = speed.flops_f32;
  hardware.memory_bytes_per_s = speed.bandwidth;
  hardware.kernel_us = speed.kernel_seconds * 1e6;
  hardware.devices_per_node = world.local_size();
  if (world.size() > 1) {
    constexpr std::int64_t kCount = std::int64_t{4} << 20;
    auto* region = static_cast<float*>(world.communication_region(kCount * 4));
    auto& link = world.size() > world.local_size() ? hardware.remote : hardware.local;
    const double latency = all_reduce_seconds(world, *device, region, 1);
    const double seconds = std::max(all_reduce_seconds(world, *device, region, kCount) - latency, 1e-9);
    const auto n = static_cast<double>(world.size());
    link = {latency * 1e6, 2 * (n - 1) / n * kCount * 4 / seconds};
  }
  return hardware;
}

}  // namespace tessera::train
