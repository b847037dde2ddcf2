#include "partition/hardware.h"

#include <array>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"

namespace tessera::partition {
namespace {

using Json = nlohmann::json;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// Datasheet values times the share that large matmuls, copies and rings reach in practice: 0.75 of the dense tensor
// peak (TF32 for f32), 0.85 of the memory's, 0.8 of a link's one-way bandwidth. Sources: NVIDIA's datasheets of A100
// 80GB SXM (312 TF bf16, 156 TF tf32, 2.04 TB/s, NVLink 300 GB/s one way), H100 SXM (989, 494, 3.35, 450), H200 SXM
// (989, 494, 4.8, 450) and HGX B200 (2250, 1125, 8, 900). Between nodes: one 200 Gb/s (A100) or 400 Gb/s InfiniBand
// port a device. cpu: one rank with four AVX-512 cores (115 GF/s f32 and 220 GF/s bf16 a core), a shared window in the
// node, 25 Gb/s Ethernet.
const std::array<Hardware, 5> kProfiles{{
    {.name = "cpu",
     .flops_f32 = 4.0e11,
     .flops_bf16 = 8.0e11,
     .memory_bytes_per_s = 2.0e10,
     .kernel_us = 5,
     .local = {20, 4.0e9},
     .remote = {40, 2.5e9},
     .devices_per_node = 8,
     .memory_bytes = 0,
     .scratch_bytes = 0},
    {.name = "a100-80",
     .gpu = true,
     .flops_f32 = 1.17e14,
     .flops_bf16 = 2.34e14,
     .memory_bytes_per_s = 1.73e12,
     .kernel_us = 5,
     .local = {10, 2.4e11},
     .remote = {20, 2.0e10},
     .devices_per_node = 8,
     .memory_bytes = 80 * kGiB,
     .scratch_bytes = 32 << 20},
    {.name = "h100",
     .gpu = true,
     .flops_f32 = 3.7e14,
     .flops_bf16 = 7.4e14,
     .memory_bytes_per_s = 2.85e12,
     .kernel_us = 5,
     .local = {10, 3.6e11},
     .remote = {20, 4.0e10},
     .devices_per_node = 8,
     .memory_bytes = 80 * kGiB,
     .scratch_bytes = 32 << 20},
    {.name = "h200",
     .gpu = true,
     .flops_f32 = 3.7e14,
     .flops_bf16 = 7.4e14,
     .memory_bytes_per_s = 4.08e12,
     .kernel_us = 5,
     .local = {10, 3.6e11},
     .remote = {20, 4.0e10},
     .devices_per_node = 8,
     .memory_bytes = 141'000'000'000,
     .scratch_bytes = 32 << 20},
    {.name = "b200",
     .gpu = true,
     .flops_f32 = 8.4e14,
     .flops_bf16 = 1.69e15,
     .memory_bytes_per_s = 6.8e12,
     .kernel_us = 5,
     .local = {10, 7.2e11},
     .remote = {20, 4.0e10},
     .devices_per_node = 8,
     .memory_bytes = 180'000'000'000,
     .scratch_bytes = 32 << 20},
}};

// A key of the file and where its number goes. The same table reads and writes.
template <typename Profile, typename Visit>
void visit_fields(Profile& h, Visit visit) {
  visit("flops_f32", h.flops_f32);
  visit("flops_bf16", h.flops_bf16);
  visit("memory_bytes_per_s", h.memory_bytes_per_s);
  visit("kernel_us", h.kernel_us);
  visit("local_latency_us", h.local.latency_us);
  visit("local_bytes_per_s", h.local.bytes_per_s);
  visit("remote_latency_us", h.remote.latency_us);
  visit("remote_bytes_per_s", h.remote.bytes_per_s);
  visit("devices_per_node", h.devices_per_node);
  visit("memory_bytes", h.memory_bytes);
  visit("scratch_bytes", h.scratch_bytes);
}

/// The same for keys that a file may leave out.
template <typename Profile, typename Visit>
void visit_settings(Profile& h, Visit visit) {
  visit("gpu", h.gpu);
  visit("nccl_windows", h.nccl_windows);
  visit("nccl_max_blocks", h.nccl_max_blocks);
}

template <typename Number>
void read_number(const Json& json, const std::string& file, const char* key, Number& number) {
  const bool whole = std::is_integral_v<Number>;
  if (!json.contains(key)) fail(ExitCode::kConfig, "hardware file {}: '{}' is missing", file, key);
  const auto& value = json.at(key);
  if (whole ? !value.is_number_integer() : !value.is_number())
    fail(ExitCode::kConfig, "hardware file {}: '{}' is {}, not a {}number", file, key, value.dump(),
         whole ? "whole " : "");
  number = value.get<Number>();
  const bool may_be_zero = std::string_view(key) == "memory_bytes" || std::string_view(key) == "scratch_bytes" ||
                           std::string_view(key) == "kernel_us" || std::string_view(key) == "nccl_max_blocks" ||
                           std::string_view(key).ends_with("latency_us");
  if (number < 0 || (number == 0 && !may_be_zero))
    fail(ExitCode::kConfig, "hardware file {}: '{}' is {}, must be {}", file, key, value.dump(),
         may_be_zero ? "0 or more" : "more than 0");
}

void read_setting(const Json& json, const std::string& file, const char* key, std::int64_t& number) {
  if (json.contains(key)) read_number(json, file, key, number);
}

void read_setting(const Json& json, const std::string& file, const char* key, bool& flag) {
  if (!json.contains(key)) return;
  if (!json.at(key).is_boolean())
    fail(ExitCode::kConfig, "hardware file {}: '{}' is neither true nor false", file, key);
  flag = json.at(key).get<bool>();
}

Hardware read_file(const std::string& file) {
  std::ifstream in(file);
  const auto json = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) fail(ExitCode::kConfig, "hardware file {} is not a JSON object", file);
  Hardware hardware;
  std::vector<std::string> keys{"name"};
  visit_fields(hardware, [&](const char* key, auto& number) {
    keys.emplace_back(key);
    read_number(json, file, key, number);
  });
  if (!json.contains("name") || !json.at("name").is_string())
    fail(ExitCode::kConfig, "hardware file {}: 'name' is missing or not a text", file);
  hardware.name = json.at("name").get<std::string>();
  visit_settings(hardware, [&](const char* key, auto& value) {
    keys.emplace_back(key);
    read_setting(json, file, key, value);
  });
  for (const auto& [key, value] : json.items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      fail(ExitCode::kConfig, "hardware file {}: unknown key '{}'{}", file, key, did_you_mean(key, keys));
  return hardware;
}

}  // namespace

Hardware load_hardware(const std::string& name_or_file) {
  std::vector<std::string> names;
  for (const auto& profile : kProfiles) {
    if (profile.name == name_or_file) return profile;
    names.push_back(profile.name);
  }
  if (std::filesystem::is_regular_file(name_or_file)) return read_file(name_or_file);
  fail(ExitCode::kConfig, "there is no hardware profile or file '{}'{}; profiles: {}", name_or_file,
       did_you_mean(name_or_file, names), join(names));
}

std::string to_json(const Hardware& hardware) {
  nlohmann::ordered_json json{{"name", hardware.name}};
  visit_settings(hardware, [&](const char* key, const auto& value) { json[key] = value; });
  visit_fields(hardware, [&](const char* key, const auto& number) { json[key] = number; });
  return json.dump(2);
}

}  // namespace tessera::partition
