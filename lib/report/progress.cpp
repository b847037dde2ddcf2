#include "report/progress.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "core/text.h"
#include "report/number.h"

namespace tessera::report {
namespace {

constexpr double kBarSeconds = 0.1, kLineSeconds = 10;
constexpr int kBarWidth = 30;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename... Args>
void print(std::FILE* to, fmt::format_string<Args...> text, Args&&... args) {
  fmt::memory_buffer buffer;  // no allocation below 500 bytes
  fmt::format_to(std::back_inserter(buffer), text, std::forward<Args>(args)...);
  std::fwrite(buffer.data(), 1, buffer.size(), to);
  std::fflush(to);
}

}  // namespace

std::string logs_line(const train::Logs& logs) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : logs) parts.push_back(fmt::format("{} {:.4f}", name, value));
  return join(parts, "  ");
}

Progress::Progress(std::FILE* to) : to_(to), terminal_(isatty(fileno(to)) != 0) {}

void Progress::begin(const train::BeginEvent& event) {
  run_ = event;
  print(to_, "{}, {} of {}, batch size {}\n", counted(event.samples, "sample"), counted(event.epochs, "epoch"),
        counted(event.steps_per_epoch, "step"), event.batch_size);
}

void Progress::epoch_begin(std::int64_t) {
  epoch_start_ = last_print_ = seconds_now();
  milliseconds_ = 0;
  steps_ = timed_steps_ = 0;
}

void Progress::step(const train::StepEvent& event) {
  ++steps_;
  if (event.step > 1) {
    milliseconds_ += event.step_ms;
    ++timed_steps_;
  }
  const auto now = seconds_now();
  if (now - last_print_ < (terminal_ ? kBarSeconds : kLineSeconds)) return;
  last_print_ = now;
  const double mean = timed_steps_ > 0 ? milliseconds_ / static_cast<double>(timed_steps_) : event.step_ms;
  if (!terminal_) {
    print(to_, "epoch {}/{} step {}/{}: loss {:.4f}  lr {:.3g}  {:.2f} ms a step\n", event.epoch + 1, run_.epochs,
          event.step_in_epoch, run_.steps_per_epoch, event.loss, event.learning_rate, mean);
    return;
  }
  std::array<char, kBarWidth> bar;
  const auto done = std::min<std::int64_t>(
      kBarWidth * event.step_in_epoch / std::max<std::int64_t>(run_.steps_per_epoch, 1), kBarWidth);
  std::fill(bar.begin(), bar.begin() + done, '=');
  std::fill(bar.begin() + done, bar.end(), ' ');
  print(to_, "\r\x1b[Kepoch {}/{} [{}] {}/{}  loss {:.4f}  lr {:.3g}  {:.2f} ms a step", event.epoch + 1, run_.epochs,
        std::string_view(bar.data(), bar.size()), event.step_in_epoch, run_.steps_per_epoch, event.loss,
        event.learning_rate, mean);
  bar_shown_ = true;
}

void Progress::clear_bar() {
  if (bar_shown_) print(to_, "\r\x1b[K");
  bar_shown_ = false;
}

void Progress::epoch(std::int64_t epoch, const train::Logs& logs) {
  clear_bar();
  const double mean = timed_steps_ > 0 ? milliseconds_ / static_cast<double>(timed_steps_) : 0;
  print(to_, "epoch {}/{}: {}, {:.2f} s, {:.2f} ms a step  {}\n", epoch + 1, run_.epochs, counted(steps_, "step"),
        seconds_now() - epoch_start_, mean, logs_line(logs));
}

void Progress::checkpoint(const train::CheckpointEvent& event) {
  if (terminal_) return;  // the bar goes on
  print(to_, "checkpoint of step {}: {} in {:.2f} s\n", event.step, human_bytes(static_cast<double>(event.bytes)),
        event.write_s);
}

void Progress::warning(const std::string& sentence) {
  clear_bar();
  print(to_, "warning: {}\n", sentence);
}

void Progress::end(const train::EndEvent& event) {
  clear_bar();
  print(to_, "{} after {}; {} planned a rank, peak {} resident\n", event.interrupted ? "interrupted" : "done",
        counted(event.steps, "step"), human_bytes(static_cast<double>(event.planned_bytes)),
        human_bytes(static_cast<double>(event.peak_rss_bytes)));
  if (event.gpu_baseline_bytes > 0)
    print(to_, "beside the plan, the GPU of rank 0 holds {}: CUDA, NCCL and what else runs there\n",
          human_bytes(static_cast<double>(event.gpu_baseline_bytes)));
}

}  // namespace tessera::report
