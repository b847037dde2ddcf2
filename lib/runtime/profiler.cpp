#include "runtime/profiler.h"

#include <utility>

namespace tessera::runtime {
namespace {

std::int64_t bytes_of(const partition::Program& program, const partition::Instruction& instruction) {
  const auto* call = std::get_if<partition::KernelCall>(&instruction.what);
  if (call == nullptr) return instruction.moved_bytes;
  std::int64_t bytes = 0;
  for (const auto* operands : {&call->inputs, &call->outputs})
    for (const int value : *operands) bytes += program.values[static_cast<std::size_t>(value)].bytes;
  return bytes;
}

std::string name_of(const partition::Instruction& instruction) {
  if (const auto* call = std::get_if<partition::KernelCall>(&instruction.what)) return call->kernel;
  return to_string(std::get<partition::CollectiveCall>(instruction.what).kind);
}

}  // namespace

void Profiler::add(const ProgramImage& image) {
  add(image, "prologue", image.prologue);
  add(image, "body", image.body);
  for (const auto& [name, section] : image.epilogues) add(image, name, section);
}

void Profiler::add(const ProgramImage& image, const std::string& name, const SectionImage& section) {
  for (const auto& step : section.steps) {
    const auto& instruction = *step.instruction;
    Entry entry;
    entry.time = {image.program->name, name, name_of(instruction), instruction.layer, step.kernel < 0};
    entry.time.flops = instruction.flops;
    entry.time.bytes = bytes_of(*image.program, instruction);
    for (std::int64_t m = 0; m < image.program->micro_batches; ++m)
      entry.of_micro_batch.push_back({device_.make_event(), device_.make_event()});
    entries_[&step] = std::move(entry);
    order_.push_back(&step);
  }
}

Profiler::Events& Profiler::events_of(const Step& step, std::int64_t micro_batch) {
  return entries_.at(&step).of_micro_batch.at(static_cast<std::size_t>(micro_batch));
}

void Profiler::begin(const Step& step, std::int64_t micro_batch) {
  device_.begin_range(step.what.c_str());
  events_of(step, micro_batch).begin->record(stream_of(step));
}

void Profiler::end(const Step& step, std::int64_t micro_batch) {
  auto& events = events_of(step, micro_batch);
  events.end->record(stream_of(step));
  events.recorded = true;
  device_.end_range();
}

void Profiler::collect(const ProgramImage& image, const std::string& epilogue) {
  const bool counts = ++steps_[&image] > 1;
  collect(image.prologue, counts);
  collect(image.body, counts);
  if (const auto it = image.epilogues.find(epilogue); it != image.epilogues.end()) collect(it->second, counts);
}

void Profiler::collect(const SectionImage& section, bool counts) {
  for (const auto& step : section.steps) {
    auto& entry = entries_.at(&step);
    for (auto& events : entry.of_micro_batch) {
      if (!std::exchange(events.recorded, false) || !counts) continue;
      entry.time.seconds += events.end->seconds_since(*events.begin);
      ++entry.time.runs;
    }
  }
}

std::vector<InstructionTime> Profiler::times() const {
  std::vector<InstructionTime> times;
  for (const auto* step : order_)
    if (const auto& time = entries_.at(step).time; time.runs > 0) times.push_back(time);
  return times;
}

}  // namespace tessera::runtime
