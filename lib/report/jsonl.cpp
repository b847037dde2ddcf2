#include "report/jsonl.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "report/number.h"

namespace tessera::report {
namespace {

class Line {
 public:
  /// `event` needs no escapes.
  explicit Line(std::string_view event) {
    append("{\"event\":\"");
    append(event);
    append("\"");
  }

  Line& add(std::string_view key, std::string_view text) {
    append_key(key);
    append(nlohmann::json(text).dump());
    return *this;
  }
  Line& add(std::string_view key, double value) {
    append_key(key);
    append_number(buffer_, value);
    return *this;
  }
  Line& add(std::string_view key, std::int64_t value) {
    append_key(key);
    fmt::format_to(std::back_inserter(buffer_), "{}", value);
    return *this;
  }
  Line& add(std::string_view key, const train::Logs& logs) {
    append_key(key);
    append("{");
    bool first = true;
    for (const auto& [name, value] : logs) {
      append(first ? "" : ",");
      append(nlohmann::json(name).dump());
      append(":");
      append_number(buffer_, value);
      first = false;
    }
    append("}");
    return *this;
  }
  Line& add_raw(std::string_view key, std::string_view json) {
    append_key(key);
    append(json);
    return *this;
  }
  std::string_view finish() {
    append("}\n");
    return {buffer_.data(), buffer_.size()};
  }

 private:
  void append(std::string_view text) { buffer_.append(text.data(), text.data() + text.size()); }
  void append_key(std::string_view key) {
    append(",\"");
    append(key);
    append("\":");
  }
  fmt::memory_buffer buffer_;  // 500 bytes before it allocates
};

nlohmann::ordered_json counters_json(const comm::Counters& counters) {
  nlohmann::ordered_json json;
  const auto add = [&](const char* name, const comm::Counter& counter) {
    json[name] = {{"count", counter.calls}, {"bytes", counter.bytes}};
  };
  add("all_reduce", counters.all_reduce);
  add("reduce_scatter", counters.reduce_scatter);
  add("all_gather", counters.all_gather);
  add("all_to_all", counters.all_to_all);
  add("box_exchange", counters.box_exchange);
  return json;
}

}  // namespace

JsonlWriter::JsonlWriter(const std::string& file, bool append)
    : file_(file), fd_(open(file.c_str(), O_WRONLY | O_CREAT | (append ? 0 : O_TRUNC) | O_APPEND | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail(ExitCode::kData, "can't write {}: {}", file, std::strerror(errno));
}

JsonlWriter::~JsonlWriter() {
  if (fd_ >= 0) close(fd_);
}

void JsonlWriter::write_line(const char* bytes, std::size_t count) {
  while (count > 0) {
    const auto done = ::write(fd_, bytes, count);  // a disk that fills takes a part
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(ExitCode::kData, "can't write {}: {}", file_, std::strerror(errno));
    bytes += done;
    count -= static_cast<std::size_t>(done);
  }
}

void JsonlWriter::step(const train::StepEvent& event) {
  Line line("step");
  line.add("epoch", event.epoch)
      .add("step", event.step)
      .add("loss", event.loss)
      .add("learning_rate", event.learning_rate);
  if (event.grad_norm) line.add("grad_norm", *event.grad_norm);
  const auto text = line.add("step_ms", event.step_ms).add("samples_per_s", event.samples_per_s).finish();
  write_line(text.data(), text.size());
}

void JsonlWriter::evaluate(const std::string& on, const train::Logs& logs) {
  Line line("evaluate");
  const auto text = line.add("on", on).add("logs", logs).finish();
  write_line(text.data(), text.size());
}

void JsonlWriter::epoch(std::int64_t epoch, const train::Logs& logs) {
  Line line("epoch");
  const auto text = line.add("epoch", epoch).add("logs", logs).finish();
  write_line(text.data(), text.size());
}

void JsonlWriter::checkpoint(const train::CheckpointEvent& event) {
  Line line("checkpoint");
  line.add("step", event.step).add("bytes", event.bytes).add("copy_ms", event.copy_ms).add("write_s", event.write_s);
  const auto text = line.finish();
  write_line(text.data(), text.size());
}

void JsonlWriter::warning(const std::string& sentence) {
  Line line("warning");
  const auto text = line.add("text", sentence).finish();
  write_line(text.data(), text.size());
}

void JsonlWriter::end(const train::EndEvent& event) {
  Line line("end");
  line.add("steps", event.steps).add("planned_bytes", event.planned_bytes);
  line.add_raw("pools", nlohmann::ordered_json(event.pools).dump());
  line.add("baseline_bytes", event.baseline_bytes);
  if (event.gpu_baseline_bytes > 0) line.add("gpu_baseline_bytes", event.gpu_baseline_bytes);
  line.add("peak_rss_bytes", event.peak_rss_bytes);
  line.add_raw("collectives", counters_json(event.collectives).dump());
  if (event.interrupted) line.add_raw("interrupted", "true");
  const auto text = line.finish();
  write_line(text.data(), text.size());
}

void cut_after_step(const std::string& file, std::int64_t step, bool epoch_ended) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return;  // none yet
  std::string line;
  std::uintmax_t at = 0, end = 0;
  bool found = false;
  while (std::getline(in, line) && !in.eof()) {  // a last line without its end is no event
    at += line.size() + 1;
    const auto event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool known = event.is_object() && event.contains("event") && event["event"].is_string();
    const auto kind = known ? event["event"].get<std::string>() : "";
    const auto number = kind == "step" && event.contains("step") && event["step"].is_number_integer()
                            ? event["step"].get<std::int64_t>()
                            : 0;
    if (number > step) break;
    if (found && (kind == "end" || !epoch_ended)) break;
    found = found || number == step;
    end = at;
  }
  std::error_code error;
  std::filesystem::resize_file(file, end, error);
  if (error) fail(ExitCode::kData, "can't cut {}: {}", file, error.message());
}

}  // namespace tessera::report
