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

}  // namespace

SignalFlag::SignalFlag() {
  flag = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t s = 0; s < kSignals.size(); ++s) sigaction(kSignals[s], &action, &before[s]);
}

SignalFlag::~SignalFlag() {
  for (std::size_t s = 0; s < kSignals.size(); ++s) sigaction(kSignals[s], &before[s], nullptr);
}

bool SignalFlag::raised() const { return flag != 0; }

}  // namespace tessera::train
