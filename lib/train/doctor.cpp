#include "train/doctor.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "checkpoint/file.h"
#include "checkpoint/folders.h"
#include "core/error.h"
#include "core/text.h"
#include "device/cuda.h"
#include "train/agree.h"
#include "train/data_files.h"
#include "train/gpu.h"
#include "train/launch.h"
#include "train/measure.h"
#include "train/planning.h"
#include "train/process_memory.h"
#include "train/saved_state.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using Level = Finding::Level;

std::string bytes_text(std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

class Examination {
 public:
  Examination(comm::World& world, const std::optional<config::Spec>& spec,
              const std::function<void(const Finding&)>& report)
      : world_(world), spec_(spec), report_(report) {
    for (const auto& host : world.gather(world.host())) ranks_of_[host] += 1;
  }

  std::vector<Finding> run() {
    ranks();
    nodes();
    gpus();
    plan();
    shared_memory();
    output();
    data();
    limits();
    communication();  // last: it can end the job
    return std::move(findings_);
  }

 private:
  void add(Level level, const std::string& subject, const std::string& sentence, const std::string& fix = "") {
    findings_.push_back({level, subject, sentence, fix});
    report_(findings_.back());
  }
  /// Something that throws the same Error on all ranks.
  bool works(const std::string& subject, const std::string& fix, const std::function<void()>& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      add(Level::kFailure, subject, error.what(), fix);
      return false;
    }
  }

  void ranks() {
    std::vector<std::string> hosts;
    for (const auto& [host, count] : ranks_of_) hosts.push_back(fmt::format("{} on {}", count, host));
    const auto sentence = fmt::format("{} rank{}: {}; {}", world_.size(), world_.size() == 1 ? "" : "s", join(hosts),
                                      comm::mpi_version());
    if (world_.size() == 1)
      return add(Level::kOk, "ranks", sentence, "start it as the job will be: mpirun -np N trainer doctor");
    const bool even = std::all_of(ranks_of_.begin(), ranks_of_.end(),
                                  [&](const auto& entry) { return entry.second == ranks_of_.begin()->second; });
    if (!even)
      return add(Level::kWarning, "ranks", sentence + "; the nodes have different numbers of ranks",
                 "give each node the same: mpirun --map-by ppr:N:node");
    add(Level::kOk, "ranks", sentence);
  }

  void nodes() {
    if (!works("nodes", "", [&] { launch_ = agree_on_launch(world_, true, 0); })) return;
    for (const auto& warning : launch_.warnings) {
      const bool binding = warning.find("threads of the ranks") != std::string::npos;  // its fix is part of it
      add(Level::kWarning, "nodes", warning,
          binding ? "" : "use equal nodes, or --allow-mixed, which takes the least of each");
    }
    if (launch_.warnings.empty())
      add(Level::kOk, "nodes",
          fmt::format("{} thread{} a rank, the same processors and libraries everywhere", launch_.device.threads,
                      launch_.device.threads == 1 ? "" : "s"));
  }

  // A node without GPUs is none the worse, unless the config insists.
  void gpus() {
    config::Spec wish;
    wish.device = "auto";
    const bool insists = spec_ && spec_->device == "cuda";
    choice_ = choose_device(wish, world_);
    if (choice_.kind == device::DeviceKind::kCpu)
      return add(insists ? Level::kFailure : Level::kOk, "GPUs", choice_.reason.substr(choice_.reason.find(' ') + 1),
                 insists ? "device: auto or cpu trains without" : "");
    const auto& backend = device::cuda_backend();
    const auto gpu = backend.gpus()[static_cast<std::size_t>(choice_.index)];
    const auto libraries = backend.libraries();
    std::map<std::string, int> models;
    for (const auto& name : world_.gather(gpu.name)) models[name] += 1;
    std::vector<std::string> names;
    for (const auto& [name, count] : models) names.push_back(fmt::format("{} x {}", count, name));
    const auto sentence = fmt::format("{}, one a rank; driver for CUDA {}, CUDA {}, cuBLASLt {}", join(names),
                                      device::cuda_version(libraries.driver), device::cuda_version(libraries.runtime),
                                      libraries.cublaslt);
    if (models.size() > 1)
      return add(Level::kWarning, "GPUs", sentence, "steps are as fast as the slowest model; use equal GPUs");
    add(Level::kOk, "GPUs", sentence);
  }

  void plan() {
    if (!spec_ || !spec_->compile.present) return;
    if (!works("plan", "",
               [&] { planning_ = plan_run(*spec_, world_.size(), {.programs = training_programs(*spec_)}); }))
      return;
    const auto needed = planned_bytes(planning_->plan), each = available_bytes() / world_.local_size();
    std::int64_t least = each;
    for (const auto& text : world_.gather(std::to_string(each)))
      least = std::min<std::int64_t>(least, std::stoll(text));
    const auto sentence =
        fmt::format("a rank needs {}, the nodes have {} free for each", bytes_text(needed), bytes_text(least));
    if (choice_.kind == device::DeviceKind::kCpu && needed > least)
      return add(Level::kFailure, "memory", sentence, "trainer advise CONFIG says which distribution fits");
    add(Level::kOk, "memory", sentence);
  }

  // Of the node that has least to spare.
  void shared_memory() {
    struct statvfs space {};
    const bool known = ::statvfs("/dev/shm", &space) == 0;
    const auto own = known ? static_cast<std::int64_t>(space.f_bavail) * static_cast<std::int64_t>(space.f_frsize) : 0;
    constexpr std::int64_t kUsual = std::int64_t{1} << 30;
    const auto of_rank = planning_ ? planning_->plan.pool_bytes[static_cast<int>(partition::Pool::kComm)] : 0;
    const auto need = world_.local_size() == 1 ? 0 : planning_ ? world_.local_size() * of_rank : kUsual;
    std::int64_t least = own, needed = need;
    std::string where = world_.host();
    for (const auto& text : world_.gather(fmt::format("{} {} {}", own, need, world_.host()))) {
      std::istringstream words(text);
      std::int64_t has = 0, wants = 0;
      std::string host;
      words >> has >> wants >> host;
      if (has - wants > least - needed || (has - wants == least - needed && host >= where)) continue;
      least = has;
      needed = wants;
      where = host;
    }
    auto sentence = fmt::format("{} has {} free in /dev/shm", where, bytes_text(least));
    if (needed > 0)
      sentence +=
          fmt::format("; {} {}", planning_ ? "this config needs" : "models of some size need", bytes_text(needed));
    if (least < needed)
      return add(planning_ ? Level::kFailure : Level::kWarning, "shared memory", sentence,
                 "docker run --shm-size=1g (or more), or mount a larger tmpfs");
    add(Level::kOk, "shared memory", sentence);
  }

  void communication() {
    if (world_.size() == 1) return;
    const auto* subject = choice_.kind == device::DeviceKind::kCuda ? "NCCL" : "communication";
    works(subject, "", [&] {
      partition::Hardware measured;
      agree_or_end([&] { measured = measure_hardware(world_, launch_, choice_.kind); });
      const bool nodes = world_.size() > world_.local_size();
      const auto& link = nodes ? measured.remote : measured.local;
      const auto sentence =
          fmt::format("an all-reduce of 16 MiB moves {:.2f} GB/s a rank {}, a small one takes {:.0f} us",
                      link.bytes_per_s / 1e9, nodes ? "between nodes" : "within the node", link.latency_us);
      // Less than Gigabit Ethernet's: a wrong interface, or a launcher that put everything on one core.
      if (link.bytes_per_s < 1e8)
        return add(
            Level::kWarning, subject, sentence,
            "look which interface is used: mpirun --mca btl_tcp_if_include, NCCL_SOCKET_IFNAME, NCCL_DEBUG=INFO");
      add(Level::kOk, subject, sentence);
    });
  }
  void agree_or_end(const std::function<void()>& body) { or_end_job(world_, body); }

  void output() {
    const auto folder = fs::path(spec_ ? spec_->output_dir : ".");
    const auto probe = folder / ".tessera_doctor";
    double seconds = 0;
    constexpr std::int64_t kBytes = 64 << 20;
    const bool wrote = works("output", "say another output_dir, or give the folder to this user", [&] {
      agree(world_, [&] {
        if (world_.rank() != 0) return;
        std::error_code error;
        fs::create_directories(folder, error);
        const std::string block(kBytes, 'x');
        const auto start = std::chrono::steady_clock::now();
        checkpoint::write_text_file(probe.string(), block);
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      });
    });
    std::error_code error;
    if (!wrote) {
      if (world_.rank() == 0) fs::remove(probe, error);
      return;
    }
    // Checkpoints need one file system for all nodes.
    std::vector<std::string> blind;
    std::size_t rank = 0;
    for (const auto& text : world_.gather((fs::exists(probe, error) ? "1" : "0") + world_.host())) {
      if (text[0] == '0') blind.push_back(fmt::format("rank {} on {}", rank, text.substr(1)));
      ++rank;
    }
    world_.barrier();
    if (world_.rank() == 0) fs::remove(probe, error);
    const auto name = fs::absolute(folder, error).lexically_normal().string();
    if (!blind.empty())
      return add(Level::kFailure, "output", fmt::format("{} is not the same folder for {}", name, join(blind)),
                 "let output_dir lie on a file system that all nodes share");
    const auto text = world_.broadcast(fmt::format("{} {}", checkpoint::free_space(folder.string()), seconds), 0);
    std::istringstream words(text);
    std::int64_t free = 0;
    words >> free >> seconds;
    auto sentence =
        fmt::format("{}: {} free, a file is written at {:.0f} MB/s", name, bytes_text(free), kBytes / 1e6 / seconds);
    if (!planning_) return add(Level::kOk, "output", sentence);
    const auto one = saved_files(planning_->plan).bytes();
    const auto many = one * (spec_->checkpoint.present ? spec_->checkpoint.keep + 1 : 1);
    sentence += fmt::format("; {} {}", spec_->checkpoint.present ? "its checkpoints take" : "a checkpoint takes",
                            bytes_text(many));
    if (free >= 0 && free < many)
      return add(Level::kWarning, "output", sentence, "free some space, or keep fewer: checkpoint.keep");
    add(Level::kOk, "output", sentence);
  }

  void data() {
    if (!spec_) return;
    for (const auto& [name, part] : spec_->data) {
      if (part.npy.empty()) continue;
      const auto subject = "data." + name;
      const bool there = works(subject, "", [&, &part = part] {
        agree(world_, [&] {
          for (const auto& [key, file] : part.npy)
            if (world_.rank() == 0 && !fs::is_regular_file(file))
              fail_at(part.npy_pos.at(key), ExitCode::kData, "there is no file {}", file);
        });
        require_equal_files(world_, part);
      });
      if (there)
        add(Level::kOk, subject,
            fmt::format("{} file{}, the same on all ranks", part.npy.size(), part.npy.size() == 1 ? "" : "s"));
    }
  }

  // Of the rank that has least.
  void limits() {
    const auto least_of = [&](int which) {
      struct rlimit limit {};
      ::getrlimit(static_cast<__rlimit_resource>(which), &limit);
      auto least = limit.rlim_cur;
      for (const auto& text : world_.gather(std::to_string(limit.rlim_cur)))
        least = std::min<rlim_t>(least, std::stoull(text));
      return least;
    };
    const auto text = [](rlim_t value) {
      return value == RLIM_INFINITY ? std::string("unlimited") : std::to_string(value);
    };
    const auto locked = least_of(RLIMIT_MEMLOCK), files = least_of(RLIMIT_NOFILE), memory = least_of(RLIMIT_AS);
    const auto sentence =
        fmt::format("locked memory {}, open files {}, address space {}", text(locked), text(files), text(memory));
    if (files < 1024)
      return add(Level::kWarning, "limits", sentence, "ulimit -n 4096: a rank opens its data and links to others");
    if (memory != RLIM_INFINITY)
      return add(Level::kWarning, "limits", sentence,
                 "ulimit -v unlimited: GPUs and shared windows take address space, not memory");
    if (locked != RLIM_INFINITY && (choice_.kind == device::DeviceKind::kCuda || ranks_of_.size() > 1))
      return add(Level::kWarning, "limits", sentence,
                 "ulimit -l unlimited (docker run --ulimit memlock=-1): InfiniBand and GPUs lock memory");
    add(Level::kOk, "limits", sentence);
  }

  comm::World& world_;
  const std::optional<config::Spec>& spec_;
  const std::function<void(const Finding&)>& report_;
  std::map<std::string, int> ranks_of_;  // by host
  Launch launch_;
  DeviceChoice choice_;
  std::optional<Planning> planning_;
  std::vector<Finding> findings_;
};

}  // namespace

std::string to_string(Finding::Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kWarning:
      return "warning";
    case Level::kFailure:
      return "failure";
  }
  return "?";
}

std::vector<Finding> examine(comm::World& world, const std::optional<config::Spec>& spec,
                             const std::function<void(const Finding&)>& report) {
  return Examination(world, spec, report).run();
}

}  // namespace tessera::train
