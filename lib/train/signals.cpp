#include "train/signals.h"

#include <array>
#include <csignal>

namespace tessera::train {
namespace {

constexpr std::array kSignals{SIGUSR1, SIGINT, SIGTERM};
volatile std::sig_atomic_t flag = 0;
std::array<struct sigaction, kSignals.size()> before;

// Only what a handler may do. After the first signal the default action is back, so that the second one kills.
void on_signal(int signal) {
  flag = 1;
  std::signal(signal, SIG_DFL);
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
