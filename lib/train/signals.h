#pragma once

#include <csignal>
#include <semaphore>
#include <thread>

namespace tessera::train {

/// While it lives, the first SIGUSR1, SIGINT or SIGTERM only sets a flag, and one that comes over a second later ends
/// the process at once.
/// The signals go to a thread of its own and are blocked in this one and in those that it starts: matrix kernels use
/// the stack pointer for their work space, below which a signal's frame would overwrite other memory. One at a time in
/// a process.
class SignalFlag {
 public:
  SignalFlag();
  ~SignalFlag();
  SignalFlag(const SignalFlag&) = delete;
  SignalFlag& operator=(const SignalFlag&) = delete;

  bool raised() const;

 private:
  sigset_t mask_before_{};
  std::binary_semaphore ended_{0};
  std::thread receiver_;
};

}  // namespace tessera::train
