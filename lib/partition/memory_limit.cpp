#include "partition/memory_limit.h"

#include <algorithm>
#include <optional>

#include "core/text.h"

namespace tessera::partition {
namespace {

constexpr std::int64_t kMostRanks = 1 << 16;

/// Device bytes with the first axis `factor` times as long; nullopt where the shapes don't divide.
std::optional<std::int64_t> bytes_with(const PlanRequest& request, std::int64_t factor) {
  auto distribution = *request.distribution;
  auto shape = distribution.mesh.shape();
  if (shape.empty()) return std::nullopt;
  shape[0] *= factor;
  try {
    distribution.mesh = mesh::DeviceMesh(shape, distribution.mesh.axis_names(), distribution.mesh.ranks() * factor);
    auto scaled = request;
    scaled.distribution = &distribution;
    scaled.hardware.memory_bytes = 0;
    scaled.memory_limit = 0;
    scaled.explain = false;
    return device_bytes(make_plan(scaled));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::string> largest_buffers(const Plan& plan, std::size_t count) {
  std::vector<std::pair<std::int64_t, std::string>> buffers;
  for (const auto& s : plan.state) buffers.emplace_back(s.bytes, s.variable.path);
  for (const auto& [name, program] : plan.programs)
    for (const auto& v : program.values)
      if (v.inside < 0 && v.state < 0 && v.offset >= 0 && v.pool != Pool::kStaging)
        buffers.emplace_back(v.bytes, name + ": " + v.name);
  std::stable_sort(buffers.begin(), buffers.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  buffers.resize(std::min(buffers.size(), count));
  std::vector<std::string> out;
  for (const auto& [bytes, name] : buffers)
    out.push_back(fmt::format("{} {}", name, human_bytes(static_cast<double>(bytes))));
  return out;
}

void fail_out_of_memory(const Plan& plan, std::int64_t limit, const PlanRequest& request) {
  std::string advice = "no number of ranks on this mesh's first axis makes it fit: shard more variables in layout_map";
  for (std::int64_t factor = 2; plan.mesh.ranks() * factor <= kMostRanks; factor *= 2) {
    const auto bytes = bytes_with(request, factor);
    if (!bytes) break;
    if (*bytes > limit) continue;
    advice =
        fmt::format("{} ranks (axis '{}' of {}) fit, with {} each", plan.mesh.ranks() * factor,
                    plan.mesh.axis_names()[0], plan.mesh.shape()[0] * factor, human_bytes(static_cast<double>(*bytes)));
    break;
  }
  fail(ExitCode::kOutOfMemory, "a rank needs {} of device memory and has {}; {}. The largest buffers: {}",
       human_bytes(static_cast<double>(device_bytes(plan))), human_bytes(static_cast<double>(limit)), advice,
       join(largest_buffers(plan, 10)));
}

}  // namespace tessera::partition
