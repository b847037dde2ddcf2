#include "settings.h"

#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <unistd.h>

#include "cuda_runtime_api.h"

namespace tessera::cuda_emulator {
namespace {

std::array<std::atomic<int>, 4> calls_left{};  // by Failure; 0: never

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

[[noreturn]] void refuse(const char* name, std::string_view wanted) {
  std::fprintf(stderr, "cuda emulator: %s=%s: expected %.*s\n", name, std::getenv(name), int(wanted.size()),
               wanted.data());
  std::_Exit(98);
}

template <typename T>
void read_number(const char* name, T& to) {
  const std::string_view text = variable(name);
  if (text.empty()) return;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  if (error != std::errc() || end != text.data() + text.size()) refuse(name, "a number");
}

void read_stream_order(const char* name, StreamOrder& to) {
  const std::string_view text = variable(name);
  if (text == "eager")
    to = StreamOrder::kEager;
  else if (text == "late")
    to = StreamOrder::kLate;
  else if (text == "random")
    to = StreamOrder::kRandom;
  else if (!text.empty())
    refuse(name, "eager, late or random");
}

void read_thread_order(const char* name, ThreadOrder& to) {
  const std::string_view text = variable(name);
  if (text == "forward")
    to = ThreadOrder::kForward;
  else if (text == "reverse")
    to = ThreadOrder::kReverse;
  else if (text == "random")
    to = ThreadOrder::kRandom;
  else if (!text.empty())
    refuse(name, "forward, reverse or random");
}

void read_epilogues(const char* name, bool& to) {
  const std::string_view text = variable(name);
  if (!text.empty() && text != "all" && text != "none") refuse(name, "all or none");
  to = text != "none";
}

// "nccl:12" or, for one rank of an mpirun, "nccl:12@1"; several with commas.
void read_failures(const char* name) {
  std::string_view rest = variable(name);
  while (!rest.empty()) {
    std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const auto at = item.find('@');
    const bool ours = at == std::string_view::npos || item.substr(at + 1) == mpi_rank();
    item = item.substr(0, at);
    const auto colon = item.find(':');
    int n = 0;
    if (colon != std::string_view::npos) std::from_chars(item.data() + colon + 1, item.data() + item.size(), n);
    const std::string_view what = item.substr(0, colon);
    const Failure failure = what == "malloc"   ? Failure::kMalloc
                            : what == "launch" ? Failure::kLaunch
                            : what == "hang"   ? Failure::kHang
                                               : Failure::kNccl;
    if (n <= 0 || (failure == Failure::kNccl && what != "nccl"))
      refuse(name, "malloc:N, launch:N, hang:N or nccl:N, each with @RANK or without");
    if (ours) fail_at(failure, n);
  }
}

Settings from_environment() {
  Settings s;
  s.driver = CUDART_VERSION;
  read_number("TESSERA_EMULATED_GPUS", s.gpus);
  read_number("TESSERA_EMULATED_MEMORY", s.memory);
  read_number("TESSERA_EMULATED_DRIVER", s.driver);
  read_stream_order("TESSERA_EMULATED_ORDER", s.streams);
  read_thread_order("TESSERA_EMULATED_THREADS", s.threads);
  read_number("TESSERA_EMULATED_SEED", s.seed);
  read_epilogues("TESSERA_EMULATED_EPILOGUES", s.epilogues);
  read_failures("TESSERA_EMULATED_FAIL");
  return s;
}

}  // namespace

Settings& settings() {
  static Settings s = from_environment();
  return s;
}

void set_device_memory(std::size_t bytes) { settings().memory = bytes; }

void set_patience(std::chrono::milliseconds time) { settings().patience = time; }

void offer_epilogues(bool all) { settings().epilogues = all; }

void fail_at(Failure what, int n) { calls_left[static_cast<std::size_t>(what)] = n; }

bool fails_now(Failure what) {
  settings();  // of the environment, at the first call
  auto& left = calls_left[static_cast<std::size_t>(what)];
  return left > 0 && --left == 0;
}

std::string mpi_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const auto rank = variable(name); !rank.empty()) return std::string(rank);
  return "";
}

}  // namespace tessera::cuda_emulator
