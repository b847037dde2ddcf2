#include "comm/box_bytes.h"

#include <algorithm>

#include "comm/pieces.h"
#include "core/box_runs.h"

namespace tessera::comm {

std::int64_t BoxBytes::length() const {
  std::int64_t sum = 0;
  for (const auto& transfer : transfers_) {
    if (transfer.peer == peer_) sum += elements(transfer.box.size) * size_;
  }
  return sum;
}

/// use(offset in the tensor, position after `begin`, bytes)
template <typename Use>
void BoxBytes::for_each_run(std::int64_t begin, std::int64_t end, Use use) const {
  std::int64_t start = 0;  // of the box in the stream
  for (const auto& transfer : transfers_) {
    if (transfer.peer != peer_) continue;
    const auto bytes = elements(transfer.box.size) * size_;
    const auto last = std::min(end, start + bytes);
    if (std::max(begin, start) < last) {
      const BoxRuns runs(transfer.tensor, transfer.box);
      const auto run_bytes = runs.length() * size_;
      for (auto at = std::max(begin, start); at < last;) {
        const auto in_box = at - start;
        const auto in_run = in_box % run_bytes;
        const auto bytes_here = std::min(run_bytes - in_run, last - at);
        use(runs.start(in_box / run_bytes) * size_ + in_run, at - begin, bytes_here);
        at += bytes_here;
      }
    }
    start += bytes;
  }
}

void BoxBytes::pack(const void* tensor, std::int64_t begin, std::int64_t end, std::byte* to) const {
  for_each_run(begin, end, [&](std::int64_t offset, std::int64_t at, std::int64_t bytes) {
    copy_bytes(to + at, bytes_of(tensor) + offset, bytes);
  });
}

void BoxBytes::unpack(void* tensor, std::int64_t begin, std::int64_t end, const std::byte* from) const {
  for_each_run(begin, end, [&](std::int64_t offset, std::int64_t at, std::int64_t bytes) {
    copy_bytes(bytes_of(tensor) + offset, from + at, bytes);
  });
}

}  // namespace tessera::comm
