#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/communicator.h"

namespace tessera::comm {

/// The boxes of `transfers` that go to (or come from) one peer, laid end to end, row-major: a stream of bytes that can
/// be copied in parts.
class BoxBytes {
 public:
  /// `base`: the tensor's memory; `size`: bytes of an element.
  BoxBytes(const std::vector<BoxTransfer>& transfers, int peer, std::int64_t size)
      : transfers_(transfers), peer_(peer), size_(size) {}

  std::int64_t length() const;

  /// Bytes [begin, end) of the stream.
  void pack(const void* tensor, std::int64_t begin, std::int64_t end, std::byte* to) const;
  void unpack(void* tensor, std::int64_t begin, std::int64_t end, const std::byte* from) const;

 private:
  template <typename Use>
  void for_each_run(std::int64_t begin, std::int64_t end, Use use) const;

  const std::vector<BoxTransfer>& transfers_;
  int peer_;
  std::int64_t size_;
};

}  // namespace tessera::comm
