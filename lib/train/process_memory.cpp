#include "train/process_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace tessera::train {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// A number in a file of the kernel; "max" or no such file: unlimited.
std::int64_t read_number(const std::string& file) {
  std::ifstream in(file);
  std::int64_t value = 0;
  return in >> value ? value : kUnlimited;
}

std::int64_t available_in_cgroup() {
  for (const auto* const folder : {"/sys/fs/cgroup/memory.", "/sys/fs/cgroup/memory/memory."}) {
    const std::string prefix = folder;
    const bool unified = prefix.find("/memory/") == std::string::npos;
    const auto limit = read_number(prefix + (unified ? "max" : "limit_in_bytes"));
    const auto used = read_number(prefix + (unified ? "current" : "usage_in_bytes"));
    if (limit != kUnlimited && used != kUnlimited) return std::max<std::int64_t>(limit - used, 0);
  }
  return kUnlimited;
}

}  // namespace

std::int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

std::int64_t available_bytes() {
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  for (std::int64_t value = 0; in >> key >> value >> unit;)
    if (key == "MemAvailable:") return std::min(value * 1024, available_in_cgroup());
  return available_in_cgroup();
}

}  // namespace tessera::train
