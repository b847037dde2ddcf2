#include "comm/node/flag.h"

#include <ctime>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace tessera::comm {
namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* limit) {
  return syscall(SYS_futex, &word, operation, value, limit, nullptr, 0);
}

}  // namespace

void Flag::raise(std::uint32_t to) {
  // Both sides use one total order: either the owner sees the sleeper, or the sleeper sees the value.
  value.store(to, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0) futex(value, FUTEX_WAKE, INT_MAX, nullptr);
}

bool Flag::wait_briefly(std::uint32_t target, bool spin) const {
  constexpr int kSpins = 1000;
  constexpr int kYields = 20;
  for (int i = 0; spin && i < kSpins; ++i) {
    if (reached(target)) return true;
    pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (reached(target)) return true;
    sched_yield();
  }
  return reached(target);
}

bool Flag::sleep(std::uint32_t target, int milliseconds) {
  const timespec limit{.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1'000'000L};
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  const auto seen = value.load(std::memory_order_seq_cst);
  if (static_cast<std::int32_t>(seen - target) < 0) futex(value, FUTEX_WAIT, seen, &limit);
  sleepers.fetch_sub(1, std::memory_order_relaxed);
  return reached(target);
}

}  // namespace tessera::comm
