#include <array>
#include <fstream>
#include <omp.h>
#include <sched.h>
#include <vector>

#include <cblas.h>
#include <dnnl.hpp>
#include <fmt/format.h>
#include <hwy/highway.h>

#include "device/cpu.h"

namespace tessera::device {
namespace {

constexpr std::array kLevels{"sse4", "avx2", "avx3"};
constexpr std::array<std::int64_t, 3> kTargets{HWY_SSE4, HWY_AVX2, HWY_AVX3};

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string openblas_version() {  // "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
  const std::string config = openblas_get_config();
  const auto start = config.find(' ') + 1;
  return config.substr(start, config.find(' ', start) - start);
}

// Where OMP_PROC_BIND binds this thread, its own mask is one place: OpenMP's places say where its team may run.
std::set<int> cores() {
  std::set<int> cores;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> ids(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    cores.insert(ids.begin(), ids.end());
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cores.empty() && sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.insert(core);
  if (cores.empty()) cores.insert(0);
  return cores;
}

}  // namespace

CpuFeatures cpu_features() {
  CpuFeatures f;
  f.model = model_name();
  const auto targets = hwy::SupportedTargets();
  for (std::size_t k = 0; k < kLevels.size(); ++k)
    if ((targets & kTargets[k]) != 0) f.isa = kLevels[k];
  const auto* version = dnnl_version();
  f.onednn = fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
  f.openblas = openblas_version();
  f.openblas_core = openblas_get_corename();
  f.cores = cores();
  return f;
}

int isa_rank(const std::string& isa) {
  for (std::size_t k = 0; k < kLevels.size(); ++k)
    if (isa == kLevels[k]) return static_cast<int>(k);
  fail(ExitCode::kInternal, "internal error: '{}' is no instruction set level", isa);
}

void limit_cpu_isa(const std::string& isa) {
  const auto level = static_cast<std::size_t>(isa_rank(isa));
  std::int64_t disabled = 0;
  for (auto k = level + 1; k < kLevels.size(); ++k) disabled |= kTargets[k];
  if (level + 1 < kLevels.size()) disabled |= HWY_AVX3_DL;
  hwy::DisableTargets(disabled);
  constexpr std::array kOneDnn{dnnl::cpu_isa::sse41, dnnl::cpu_isa::avx2, dnnl::cpu_isa::all};
  const auto status = dnnl::set_max_cpu_isa(kOneDnn[level]);
  TESSERA_CHECK(status == dnnl::status::success || level + 1 == kLevels.size(),
                "oneDNN has already made code: the level '{}' comes too late", isa);
}

}  // namespace tessera::device
