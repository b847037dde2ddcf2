#include "report/profile_tables.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <ostream>

#include <fmt/format.h>

#include "core/text.h"
#include "report/table.h"

namespace tessera::report {
namespace {

using runtime::InstructionTime;

constexpr std::size_t kMostRows = 30;

struct Sum {
  double seconds = 0, limit = 0, flops = 0, bytes = 0;
};

/// Seconds that one run takes at least.
double limit_of(const InstructionTime& t, const partition::Hardware& hardware) {
  if (t.is_collective)
    return hardware.local.bytes_per_s > 0 ? static_cast<double>(t.bytes) / hardware.local.bytes_per_s : 0;
  return std::max(static_cast<double>(t.flops) / hardware.flops_f32,
                  static_cast<double>(t.bytes) / hardware.memory_bytes_per_s);
}

std::string milliseconds(double seconds) { return fmt::format("{:.4g}", seconds * 1e3); }
std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "0 %";
}

void write_layers(std::ostream& to, const std::vector<InstructionTime>& times, const partition::Hardware& hardware,
                  double total) {
  std::map<std::string, Sum> by_layer;
  std::vector<std::string> order;
  for (const auto& t : times) {
    const auto layer = t.layer.empty() ? t.section : t.layer;
    if (!by_layer.contains(layer)) order.push_back(layer);
    auto& sum = by_layer[layer];
    const auto runs = static_cast<double>(t.runs);
    sum.seconds += t.seconds;
    sum.limit += runs * limit_of(t, hardware);
    sum.flops += runs * static_cast<double>(t.flops);
    sum.bytes += runs * static_cast<double>(t.bytes);
  }
  Table table({"layer", "ms in all", "of all", "Gflop/s", "GB/s", "percent of limit"});
  for (const auto& layer : order) {
    const auto& s = by_layer[layer];
    table.add({layer, milliseconds(s.seconds), percent(s.seconds, total),
               fmt::format("{:.4g}", s.flops / s.seconds * 1e-9), fmt::format("{:.4g}", s.bytes / s.seconds * 1e-9),
               percent(s.limit, s.seconds)});
  }
  table.write(to);
}

void write_instructions(std::ostream& to, std::vector<InstructionTime> times, const partition::Hardware& hardware,
                        double total) {
  std::stable_sort(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  Table table({"instruction", "layer", "program", "runs", "ms a run", "of all", "Mflop", "bytes", "percent of limit"});
  for (std::size_t k = 0; k < std::min(kMostRows, times.size()); ++k) {
    const auto& t = times[k];
    const auto run = t.seconds / static_cast<double>(t.runs);
    table.add({t.what, t.layer, t.program + "/" + t.section, std::to_string(t.runs), milliseconds(run),
               percent(t.seconds, total), fmt::format("{:.4g}", static_cast<double>(t.flops) * 1e-6),
               human_bytes(static_cast<double>(t.bytes)), percent(limit_of(t, hardware), run)});
  }
  table.write(to);
  if (times.size() > kMostRows) to << fmt::format("and {} more\n", times.size() - kMostRows);
}

}  // namespace

void write_profile(std::ostream& to, const std::vector<InstructionTime>& times, const partition::Hardware& hardware) {
  const auto total =
      std::accumulate(times.begin(), times.end(), 0.0, [](double sum, const auto& t) { return sum + t.seconds; });
  if (times.empty()) {
    to << "no profile: every program ran once at most, and the first step is left out\n";
    return;
  }
  to << fmt::format("profile of rank 0, limits of '{}': {} ms in {} instructions\n", hardware.name, milliseconds(total),
                    times.size());
  write_layers(to, times, hardware, total);
  to << '\n';
  write_instructions(to, times, hardware, total);
}

}  // namespace tessera::report
