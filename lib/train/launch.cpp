#include "train/launch.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <unistd.h>

#include "core/error.h"
#include "core/text.h"
#include "device/cpu.h"

namespace tessera::train {
namespace {

/// What one rank says of itself; goes over the wire as lines.
struct RankFacts {
  std::string host, isa, onednn, openblas, openblas_core;
  int threads = 1;
  std::set<int> cores;  // that it may run on

  std::string to_text() const {
    std::vector<std::string> numbers;
    for (const int core : cores) numbers.push_back(std::to_string(core));
    return join({host, isa, onednn, openblas, openblas_core, std::to_string(threads), join(numbers, " ")}, "\n");
  }
  static RankFacts from_text(const std::string& text) {
    std::vector<std::string> lines(1);
    for (const char c : text) c == '\n' ? (void)lines.emplace_back() : lines.back().push_back(c);
    TESSERA_CHECK(lines.size() == 7, "a rank said {}", text);
    RankFacts facts{lines[0], lines[1], lines[2], lines[3], lines[4], std::stoi(lines[5]), {}};
    for (std::size_t at = 0; at < lines[6].size();) {
      std::size_t digits = 0;
      facts.cores.insert(std::stoi(lines[6].substr(at), &digits));
      at += digits + 1;
    }
    return facts;
  }
};

/// Beyond it the libraries' memory for each thread is not there, which ends the process.
constexpr int kMostThreads = 1024;

int default_threads(const comm::World& world, int cores) {
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    const auto threads = std::strtol(text, nullptr, 10);  // at most LONG_MAX
    if (threads > 0) return static_cast<int>(std::min<long>(threads, kMostThreads + 1));
  }
  const auto of_node = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) / world.local_size();
  return std::max(1, std::min(cores, of_node));
}

/// The facts on which replicas must agree, with a name for each.
std::array<std::pair<std::string, std::string>, 5> comparable(const RankFacts& facts) {
  return {{{"instruction set", facts.isa},
           {"oneDNN version", facts.onednn},
           {"OpenBLAS version", facts.openblas},
           {"OpenBLAS kernels", facts.openblas_core},
           {"threads", std::to_string(facts.threads)}}};
}

/// "0-3, 8"
std::string ranges(const std::set<int>& cores) {
  std::vector<std::string> texts;
  for (auto first = cores.begin(); first != cores.end();) {
    auto last = first;
    while (std::next(last) != cores.end() && *std::next(last) == *last + 1) ++last;
    texts.push_back(first == last ? fmt::format("{}", *first) : fmt::format("{}-{}", *first, *last));
    first = std::next(last);
  }
  return join(texts);
}

/// Ranks whose threads outnumber the cores that they may use together.
std::vector<std::string> crowded_hosts(const std::vector<RankFacts>& ranks) {
  std::map<std::string, std::pair<int, std::set<int>>> hosts;  // threads, cores
  for (const auto& rank : ranks) {
    auto& [threads, cores] = hosts[rank.host];
    threads += rank.threads;
    cores.insert(rank.cores.begin(), rank.cores.end());
  }
  std::vector<std::string> warnings;
  for (const auto& [host, use] : hosts)
    if (use.first > static_cast<int>(use.second.size()))
      warnings.push_back(
          fmt::format("{} threads of the ranks on {} share {} core{} ({}): steps will be slow. Use fewer ranks, fewer "
                      "threads (OMP_NUM_THREADS), or mpirun --bind-to none if the launcher bound all ranks to these",
                      use.first, host, use.second.size(), use.second.size() == 1 ? "" : "s", ranges(use.second)));
  return warnings;
}

}  // namespace

Launch agree_on_launch(comm::World& world, bool allow_mixed, int threads) {
  const auto features = device::cpu_features();
  RankFacts own{world.host(),           features.isa, features.onednn, features.openblas,
                features.openblas_core, threads,      features.cores};
  const auto cores = static_cast<int>(own.cores.size());
  if (threads == 0) own.threads = default_threads(world, cores);

  std::vector<RankFacts> ranks;
  for (const auto& text : world.gather(own.to_text())) ranks.push_back(RankFacts::from_text(text));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].threads > kMostThreads)
      fail(ExitCode::kConfig, "OMP_NUM_THREADS of rank {} asks for more than {} threads", rank, kMostThreads);
  Launch launch;
  launch.warnings = crowded_hosts(ranks);
  const auto first = comparable(ranks[0]);
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const auto other = comparable(ranks[rank]);
    for (std::size_t f = 0; f < first.size(); ++f) {
      if (other[f] == first[f]) continue;
      const auto difference = fmt::format("rank {} on {} has {} {}, rank 0 on {} has {}", rank, ranks[rank].host,
                                          first[f].first, other[f].second, ranks[0].host, first[f].second);
      if (!allow_mixed)
        fail(ExitCode::kConfig, "{}: replicas would not stay the same bits. Use equal nodes, or --allow-mixed",
             difference);
      launch.warnings.push_back(difference);
    }
  }
  const auto weaker = [](const RankFacts& a, const RankFacts& b) {
    return device::isa_rank(a.isa) < device::isa_rank(b.isa);
  };
  const auto& weakest = *std::min_element(ranks.begin(), ranks.end(), weaker);
  if (weakest.isa != own.isa) device::limit_cpu_isa(weakest.isa);
  if (std::any_of(ranks.begin(), ranks.end(), [&](const auto& r) { return r.openblas_core != ranks[0].openblas_core; }))
    device::exclude_openblas();

  launch.device.threads = std::min_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
                            return a.threads < b.threads;
                          })->threads;
  launch.device.local_rank = world.local_rank();
  launch.device.matmul_cache = cache_file("cpu_tuning");
  const auto share = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) / world.local_size());
  launch.comm_thread = std::min(cores, share) > launch.device.threads;
  return launch;
}

std::string cache_file(const std::string& name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (!cache && !home) return "";
  const auto folder = std::filesystem::path(cache ? cache : std::string(home) + "/.cache") / "tessera";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? "" : (folder / name).string();
}

bool launched_by_mpi() {
  // What MPI finds the others by. SLURM_PROCID alone is srun without any of it: Open MPI would end there.
  for (const auto* const name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

}  // namespace tessera::train
