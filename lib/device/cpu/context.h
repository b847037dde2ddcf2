#pragma once

#include <cstdint>
#include <memory>

#include "device/cpu/matmul_choices.h"

namespace tessera::device::cpu {

/// Zeroed memory aligned to 256 bytes; from 4 MiB on on huge pages where the system has them.
std::shared_ptr<void> allocate_aligned(std::int64_t bytes);

/// Working memory that all kernels of a device share, since they run one at a time. It grows while kernels are made;
/// they ask for its place when they run.
class Scratch {
 public:
  void reserve(std::int64_t bytes) {
    if (bytes <= bytes_) return;
    memory_ = allocate_aligned(bytes);
    bytes_ = bytes;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> memory_;
  std::int64_t bytes_ = 0;
};

/// What the kernels of a device share. Outlives them.
struct Context {
  int threads = 1;
  Scratch scratch;
  MatmulChoices choices;
};

}  // namespace tessera::device::cpu
