#pragma once

#include <atomic>
#include <cstdint>

namespace tessera::comm {

/// A counter in memory that ranks share: its owner raises it, others wait until it has reached a value. It wraps
/// around.
struct Flag {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};

  bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }

  /// Sets the value and wakes who sleeps.
  void raise(std::uint32_t to);

  /// Waits for at most about ten microseconds (`spin`: on the processor; else by giving it to others), then for at most
  /// `milliseconds` asleep. True when the value was reached.
  bool wait_briefly(std::uint32_t target, bool spin) const;
  bool sleep(std::uint32_t target, int milliseconds);
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace tessera::comm
