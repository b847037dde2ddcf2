#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/device.h"
#include "runtime/image.h"

namespace tessera::runtime {

/// The two streams of a device that works beside its host: a section is queued at once, and the streams wait for each
/// other by events.
class QueuedStreams {
 public:
  /// `events`: ImageMaker::event_count().
  QueuedStreams(device::Device& device, int events);

  /// `queue_step` gives the step of an index to its stream. Work queued before comes first in both streams, and what is
  /// queued in the compute stream afterwards follows both.
  void queue(const SectionImage& section, const std::function<void(int)>& queue_step);

  /// Of the sections queued since the last call of begin(), in their order: the first step with an event that has not
  /// ended; null: all have. Goes on from where it was, so that it costs little to ask often.
  const Step* first_unfinished();
  void begin();

 private:
  device::Event& event(int number) const { return *events_[static_cast<std::size_t>(number)]; }

  std::vector<std::unique_ptr<device::Event>> events_;
  std::unique_ptr<device::Event> fork_, join_;
  std::vector<const Step*> marks_;  // steps with an event that have been queued
  std::size_t ended_ = 0;           // of these
};

}  // namespace tessera::runtime
