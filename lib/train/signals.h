#pragma once

namespace tessera::train {

/// While it lives, the first SIGUSR1, SIGINT or SIGTERM only sets a flag, and a second one ends the process at once.
/// One at a time in a process.
class SignalFlag {
 public:
  SignalFlag();
  ~SignalFlag();
  SignalFlag(const SignalFlag&) = delete;
  SignalFlag& operator=(const SignalFlag&) = delete;

  bool raised() const;
};

}  // namespace tessera::train
