#include "checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "core/checksum.h"
#include "core/error.h"

namespace tessera::checkpoint {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::int64_t kFormat = 1;

/// Reads members of an object that must be there with their type.
class Members {
 public:
  Members(const Json& json, const std::string& path) : json_(json), path_(path) {
    if (!json.is_object()) refuse("no JSON object where one belongs");
  }

  std::string text(const char* key) const {
    const auto& value = at(key);
    if (!value.is_string()) refuse(fmt::format("'{}' is no text", key));
    return value.get<std::string>();
  }
  std::int64_t count(const char* key) const {
    const auto& value = at(key);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{1} << 62)
      refuse(fmt::format("'{}' is no count", key));
    return value.get<std::int64_t>();
  }
  double number(const char* key) const {
    const auto& value = at(key);
    if (!value.is_number()) refuse(fmt::format("'{}' is no number", key));
    return value.get<double>();
  }
  const Json& object(const char* key) const {
    const auto& value = at(key);
    if (!value.is_object()) refuse(fmt::format("'{}' is no object", key));
    return value;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    fail(ExitCode::kCheckpoint, "{}: {}; it is damaged or no manifest", path_, what);
  }

 private:
  const Json& at(const char* key) const {
    const auto it = json_.find(key);
    if (it == json_.end()) refuse(fmt::format("'{}' is missing", key));
    return *it;
  }

  const Json& json_;
  const std::string& path_;
};

}  // namespace

nlohmann::ordered_json parse_shallow(const std::string& text, const std::string& path) {
  constexpr int kDeepest = 8;  // what is deeper is hostile: reading it takes the stack
  return Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json&) {
        if (depth > kDeepest) fail(ExitCode::kCheckpoint, "{}: is nested deeper than {} levels", path, kDeepest);
        return true;
      },
      /*allow_exceptions=*/false);
}

std::string form_of(const TensorSpec& tensor) {
  return fmt::format("{} {}", stored_name(tensor.dtype), to_string(tensor.shape));
}

std::string to_json(const Manifest& manifest) {
  const auto& p = manifest.position;
  Json json{{"format", kFormat},
            {"version", manifest.version},
            {"position",
             {{"steps", p.steps},
              {"epoch", p.epoch},
              {"step_in_epoch", p.step_in_epoch},
              {"skipped", p.skipped},
              {"weighted_loss", p.weighted_loss},
              {"rows", p.rows}}},
            {"device", manifest.device},
            {"mesh", manifest.mesh},
            {"ranks", manifest.ranks},
            {"order", manifest.order},
            {"config", manifest.config},
            {"tuning", manifest.tuning},
            {"tensors", Json::object()}};
  for (const auto& [name, tensor] : manifest.tensors)
    json["tensors"][name] = {{"form", tensor.form}, {"checksum", checksum_text(tensor.checksum)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";  // names may be any bytes
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  const auto json = parse_shallow(text, path);
  const Members top(json, path);
  if (const auto format = top.count("format"); format != kFormat)
    top.refuse(fmt::format("format {} is not {}, which this program reads", format, kFormat));
  Manifest manifest;
  manifest.version = top.text("version");
  manifest.device = top.text("device");
  manifest.mesh = top.text("mesh");
  manifest.ranks = top.count("ranks");
  manifest.config = top.text("config");
  manifest.tuning = top.text("tuning");
  const Members position(top.object("position"), path);
  manifest.position = {.steps = position.count("steps"),
                       .epoch = position.count("epoch"),
                       .step_in_epoch = position.count("step_in_epoch"),
                       .skipped = position.count("skipped"),
                       .weighted_loss = position.number("weighted_loss"),
                       .rows = position.number("rows")};
  const auto& p = manifest.position;
  if (p.skipped > p.steps || p.step_in_epoch > p.steps || manifest.ranks < 1)
    top.refuse(fmt::format("{} steps, of which {} in epoch {}, {} skipped, on {} ranks", p.steps, p.step_in_epoch,
                           p.epoch, p.skipped, manifest.ranks));
  for (const auto& [key, value] : top.object("order").items()) {
    if (!value.is_string()) top.refuse(fmt::format("'order.{}' is no text", key));
    manifest.order[key] = value.get<std::string>();
  }
  for (const auto& [name, value] : top.object("tensors").items()) {
    const Members tensor(value, path);
    manifest.tensors[name] = {tensor.text("form"), checksum_value(tensor.text("checksum"))};
  }
  return manifest;
}

}  // namespace tessera::checkpoint
