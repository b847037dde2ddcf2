#include "runtime/queued_streams.h"

namespace tessera::runtime {
namespace {

constexpr auto kCommunicates = static_cast<std::size_t>(partition::Stream::kComm);

}  // namespace

QueuedStreams::QueuedStreams(device::Device& device, int events)
    : fork_(device.make_event()), join_(device.make_event()) {
  for (int k = 0; k < events; ++k) events_.push_back(device.make_event());
}

void QueuedStreams::queue(const SectionImage& section, const std::function<void(int)>& queue_step) {
  const bool communicates = !section.of_stream[kCommunicates].empty();
  if (communicates) {
    fork_->record(device::Stream::kCompute);
    fork_->wait(device::Stream::kComm);
  }
  for (int index = 0; index < static_cast<int>(section.steps.size()); ++index) {
    const auto& step = section.steps[static_cast<std::size_t>(index)];
    if (step.wait_event >= 0) event(step.wait_event).wait(stream_of(step));
    queue_step(index);
    if (step.own_event < 0) continue;
    event(step.own_event).record(stream_of(step));
    marks_.push_back(&step);
  }
  if (communicates) {
    join_->record(device::Stream::kComm);
    join_->wait(device::Stream::kCompute);
  }
}

void QueuedStreams::begin() {
  marks_.clear();
  ended_ = 0;
}

const Step* QueuedStreams::first_unfinished() {
  while (ended_ < marks_.size() && event(marks_[ended_]->own_event).done()) ++ended_;
  return ended_ < marks_.size() ? marks_[ended_] : nullptr;
}

}  // namespace tessera::runtime
