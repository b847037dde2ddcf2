#pragma once

#include <cstdint>
#include <memory>

#include "core/error.h"
#include "device/tuning.h"

namespace tessera::device::cpu {

/// Zeroed memory aligned to 256 bytes; from 4 MiB on on huge pages where the system has them.
std::shared_ptr<void> allocate_aligned(std::int64_t bytes);

/// Working memory that all kernels of a device share, since they run one at a time.
class Scratch {
 public:
  Scratch() = default;
  Scratch(void* memory, std::int64_t bytes) : memory_(memory), bytes_(bytes) {}

  /// Its begin, for a kernel that uses so many bytes. Throws Error (internal) where there are fewer.
  template <class T>
  T* take(std::int64_t bytes) const {
    TESSERA_CHECK(bytes <= bytes_, "a kernel uses {} bytes of {} bytes of working memory", bytes, bytes_);
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// What the kernels of a device share. Outlives them.
struct Context {
  int threads = 1;
  Scratch scratch;
  Tuning tuning;
};

}  // namespace tessera::device::cpu
