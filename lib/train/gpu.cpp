#include "train/gpu.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "core/placed.h"
#include "core/text.h"
#include "device/cuda.h"

namespace tessera::train {
namespace {

std::string launcher_local_rank() {
  for (const auto* const name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char* value = std::getenv(name)) return value;
  return "";
}

GpuView view_of(const comm::World& world) {
  GpuView view{world.host(), world.local_rank(), world.local_size()};
  if (world.size() > 1) view.launcher_rank = launcher_local_rank();
  try {
    for (const auto& gpu : device::cuda_backend().gpus()) view.bus_ids.push_back(gpu.bus_id);
  } catch (const Error& error) {
    view.why_none = error.what();
  }
  return view;
}

// A view as lines, for the way from rank to rank.
std::string to_text(const GpuView& view) {
  return join({view.host, std::to_string(view.local_rank), std::to_string(view.local_size), view.launcher_rank,
               view.why_none, join(view.bus_ids, " ")},
              "\n");
}

GpuView from_text(const std::string& text) {
  GpuView view;
  std::istringstream lines(text);
  std::string number, ids;
  std::getline(lines, view.host);
  std::getline(lines, number);
  view.local_rank = std::stoi(number);
  std::getline(lines, number);
  view.local_size = std::stoi(number);
  std::getline(lines, view.launcher_rank);
  std::getline(lines, view.why_none);
  std::getline(lines, ids);
  std::istringstream words(ids);
  for (std::string id; words >> id;) view.bus_ids.push_back(id);
  return view;
}

std::string count_of_gpus(std::size_t count) { return fmt::format("{} GPU{}", count, count == 1 ? "" : "s"); }

}  // namespace

std::vector<int> assign_gpus(const std::vector<GpuView>& ranks) {
  std::vector<int> indices;
  std::map<std::pair<std::string, std::string>, std::size_t> owner;  // of a card: host and bus id
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& view = ranks[rank];
    if (view.bus_ids.empty()) fail(ExitCode::kConfig, "rank {} on {} has no GPU: {}", rank, view.host, view.why_none);
    if (!view.launcher_rank.empty() && view.launcher_rank != std::to_string(view.local_rank))
      fail(
          ExitCode::kConfig,
          "rank {} is number {} on {} for MPI and number {} for the launcher: they do not understand each other; start "
          "it with the mpirun of the Open MPI that it is linked with, or with srun --mpi=pmix",
          rank, view.local_rank, view.host, view.launcher_rank);
    const bool only = view.bus_ids.size() == 1;
    if (!only && view.local_rank >= std::ssize(view.bus_ids))
      fail(ExitCode::kConfig,
           "{} ranks run on {}, which has {}: start at most one rank a GPU (mpirun --map-by ppr:{}:node)",
           view.local_size, view.host, count_of_gpus(view.bus_ids.size()), view.bus_ids.size());
    indices.push_back(only ? 0 : view.local_rank);
    const auto& bus_id = view.bus_ids[static_cast<std::size_t>(indices.back())];
    const auto [first, is_new] = owner.try_emplace({view.host, bus_id}, rank);
    if (!is_new)
      fail(ExitCode::kConfig,
           "rank {} and rank {} on {} have the same GPU ({}): start one rank a GPU, or give each rank its own with "
           "CUDA_VISIBLE_DEVICES (srun --gpus-per-task=1 does)",
           first->second, rank, view.host, bus_id);
  }
  return indices;
}

DeviceChoice choose_device(const config::Spec& spec, comm::World& world) {
  if (spec.device == "cpu") return {device::DeviceKind::kCpu, "device: cpu", 0, ""};
  if (spec.device == "auto" && !world.ranks_are_processes())
    return {device::DeviceKind::kCpu, "auto: the ranks are threads of one process", 0, ""};
  std::vector<GpuView> views;
  for (const auto& text : world.gather(to_text(view_of(world)))) views.push_back(from_text(text));
  DeviceChoice choice{device::DeviceKind::kCuda, "device: cuda", 0, ""};
  try {
    choice.index = assign_gpus(views)[static_cast<std::size_t>(world.rank())];
  } catch (const Error& error) {
    if (spec.device == "cuda") fail_at(spec.device_pos, error.code(), "{}", error.what());
    return {device::DeviceKind::kCpu, fmt::format("auto: {}", error.what()), 0, ""};
  }
  if (spec.device != "cuda") choice.reason = "auto: every rank has a GPU";
  const auto gpu = device::cuda_backend().gpus()[static_cast<std::size_t>(choice.index)];
  choice.hardware = world.broadcast(hardware_of_gpu(gpu.name, gpu.capability), 0);
  return choice;
}

std::string hardware_of_gpu(const std::string& name, const std::string& capability) {
  const std::pair<const char*, const char*> known[] = {
      {"B200", "b200"}, {"H200", "h200"}, {"H100", "h100"}, {"A100", "a100-80"}};
  for (const auto& [part, profile] : known)
    if (name.find(part) != std::string::npos) return profile;
  const auto major = std::strtol(capability.c_str(), nullptr, 10);
  return major >= 10 ? "b200" : major == 9 ? "h100" : "a100-80";
}

}  // namespace tessera::train
