#pragma once

#include <atomic>
#include <cstdint>

namespace tessera::cuda_emulator {

/// The order of everything: one sequence for a process. Seeded by any thread, drawn from by the one that runs streams.
class Random {
 public:
  explicit Random(unsigned seed) { start(seed); }
  void start(unsigned seed) { state_.store(seed * 2654435761u + 88172645u, std::memory_order_relaxed); }
  std::uint32_t next() {
    std::uint32_t s = state_.load(std::memory_order_relaxed);
    if (s == 0) s = 1;
    s ^= s << 13, s ^= s >> 17, s ^= s << 5;
    state_.store(s, std::memory_order_relaxed);
    return s;
  }

 private:
  std::atomic<std::uint32_t> state_;
};

Random& random_order();

}  // namespace tessera::cuda_emulator
