#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace tessera::comm {

/// Zeroed memory at a multiple of 256 bytes.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::int64_t bytes) {
    if (bytes == 0) return;
    const auto rounded = (static_cast<std::size_t>(bytes) + 255) / 256 * 256;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(256, rounded)));
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_.get(), 0, rounded);
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace tessera::comm
