#include "train/signals.h"

#include <array>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace tessera::train {
namespace {

constexpr std::array kSignals{SIGUSR1, SIGINT, SIGTERM};
constexpr std::int64_t kOneWish = 1000000000;  // ns
volatile std::sig_atomic_t flag = 0;
std::array<struct sigaction, kSignals.size()> before;

std::int64_t first_ns = 0;

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1000000000} * now.tv_sec + now.tv_nsec;
}

// Only what a handler may do. A second signal kills, but not within a second of the first: a terminal and mpirun both
// pass on one Ctrl-C.
void on_signal(int signal) {
  if (flag == 0) {
    first_ns = now_ns();
    flag = 1;
  } else if (now_ns() - first_ns > kOneWish) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

sigset_t signal_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  return set;
}

}  // namespace

SignalFlag::SignalFlag() {
  flag = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t s = 0; s < kSignals.size(); ++s) sigaction(kSignals[s], &action, &before[s]);
  const auto signals = signal_set();
  pthread_sigmask(SIG_BLOCK, &signals, &mask_before_);
  receiver_ = std::thread([this, signals] {
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    ended_.acquire();
  });
}

SignalFlag::~SignalFlag() {
  ended_.release();
  receiver_.join();
  for (std::size_t s = 0; s < kSignals.size(); ++s) sigaction(kSignals[s], &before[s], nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

bool SignalFlag::raised() const { return flag != 0; }

}  // namespace tessera::train
