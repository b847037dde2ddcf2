#include "report/answers.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "report/number.h"
#include "report/table.h"

namespace tessera::report {

using Json = nlohmann::ordered_json;

namespace {

std::string bytes_text(std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

// JSON has no numbers that are not finite.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

}  // namespace

void write_advice(std::ostream& to, const train::Advice& advice) {
  const auto& all = advice.candidates;
  const bool measured = std::any_of(all.begin(), all.end(), [](const auto& c) { return c.measured_ms.has_value(); });
  std::vector<std::string> head{"way", "ranks", "memory a device", "fits", "predicted ms a step", "communication"};
  if (measured) head.emplace_back("measured ms");
  Table table(head);
  for (const auto& c : all) {
    std::vector<std::string> row{c.name,
                                 std::to_string(c.ranks),
                                 bytes_text(c.bytes),
                                 c.fits ? "yes" : "no",
                                 fmt::format("{:.3g}", c.step_ms),
                                 fmt::format("{:.0f}%", 100 * c.communication)};
    if (measured) row.push_back(c.measured_ms ? fmt::format("{:.3g}", *c.measured_ms) : std::string());
    table.add(std::move(row));
  }
  table.write(to);
  to << '\n';
  for (const auto& sentence : advice.verdict) to << sentence << '\n';
}

std::string advice_json(const train::Advice& advice) {
  Json json{{"memory_limit", advice.memory_limit}, {"limit_from", advice.limit_from}, {"candidates", Json::array()}};
  for (const auto& c : advice.candidates) {
    Json candidate{{"name", c.name}, {"ranks", c.ranks},     {"bytes", c.bytes},
                   {"fits", c.fits}, {"step_ms", c.step_ms}, {"communication", c.communication}};
    if (c.measured_ms) candidate["measured_ms"] = *c.measured_ms;
    json["candidates"].push_back(std::move(candidate));
  }
  json["simplest"] =
      advice.simplest < 0 ? Json() : Json(advice.candidates[static_cast<std::size_t>(advice.simplest)].name);
  json["verdict"] = advice.verdict;
  return json.dump(1) + "\n";
}

void write_verification(std::ostream& to, const train::VerifyResult& result, std::int64_t steps) {
  constexpr std::size_t kShown = 10;
  Table table({"difference", "found", "allowed"});
  for (std::size_t d = 0; d < std::min(kShown, result.differences.size()); ++d) {
    const auto& difference = result.differences[d];
    table.add({difference.what, fmt::format("{:.3g}", difference.found), fmt::format("{:.3g}", difference.allowed)});
  }
  table.write(to);
  if (result.differences.empty()) return;
  const auto& worst = result.differences.front();
  to << fmt::format("\n{}: {} on this mesh {} one device; the worst is {}, {:.2g} of what rounding allows\n",
                    result.equal() ? "equal" : "DIFFERENT", counted(steps, "step"),
                    result.equal() ? steps == 1 ? "agrees with" : "agree with"
                    : steps == 1   ? "differs from"
                                   : "differ from",
                    worst.what, worst.ratio());
}

std::string verification_json(const train::VerifyResult& result) {
  Json json{{"equal", result.equal()}, {"differences", Json::array()}};
  for (const auto& d : result.differences)
    json["differences"].push_back({{"what", d.what}, {"found", number(d.found)}, {"allowed", number(d.allowed)}});
  return json.dump(1) + "\n";
}

std::string logs_json(const train::Logs& logs) {
  auto json = Json::object();
  for (const auto& [name, value] : logs) json[name] = number(value);
  return json.dump() + "\n";
}

void write_devices(std::ostream& to, const std::vector<DeviceEntry>& devices, const std::vector<GpuEntry>& gpus) {
  if (!devices.empty()) {
    Table table({"device", "rank", "host", "model", "threads", "memory of the node"});
    for (const auto& d : devices)
      table.add(
          {d.name, std::to_string(d.rank), d.host, d.model, std::to_string(d.threads), bytes_text(d.memory_bytes)});
    table.write(to);
  }
  if (gpus.empty()) return;
  if (!devices.empty()) to << '\n';
  Table table(
      {"device", "host", "model", "capability", "bus", "memory", "free", "peers", "driver for CUDA", "libraries"});
  for (const auto& g : gpus) {
    std::vector<std::string> peers;
    for (const int peer : g.peers) peers.push_back(std::to_string(peer));
    table.add({g.name, g.host, g.model, g.capability, g.bus_id, bytes_text(g.memory_bytes), bytes_text(g.free_bytes),
               peers.empty() ? "none" : join(peers, " "), g.driver, g.libraries});
  }
  table.write(to);
}

std::string devices_json(const std::vector<DeviceEntry>& devices, const std::vector<GpuEntry>& gpus) {
  auto json = Json::array();
  for (const auto& d : devices)
    json.push_back({{"name", d.name},
                    {"rank", d.rank},
                    {"host", d.host},
                    {"model", d.model},
                    {"threads", d.threads},
                    {"memory_bytes", d.memory_bytes}});
  for (const auto& g : gpus)
    json.push_back({{"name", g.name},
                    {"host", g.host},
                    {"model", g.model},
                    {"capability", g.capability},
                    {"bus_id", g.bus_id},
                    {"memory_bytes", g.memory_bytes},
                    {"free_bytes", g.free_bytes},
                    {"peers", g.peers},
                    {"driver", g.driver},
                    {"libraries", g.libraries}});
  return json.dump(1) + "\n";
}

}  // namespace tessera::report
