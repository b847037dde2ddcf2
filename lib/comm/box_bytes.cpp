#include "comm/box_bytes.h"

#include <algorithm>

#include "comm/pieces.h"
#include "core/error.h"

namespace tessera::comm {
namespace {

/// Trailing dimensions that the box covers completely, and the one before them, are one contiguous row.
struct Rows {
  std::size_t outer = 0;   // dimensions before the row's
  std::int64_t row = 1;    // elements
  std::int64_t start = 0;  // of the first row in the tensor
};

Rows rows_of(const BoxTransfer& transfer) {
  const auto& [start, size] = transfer.box;
  TESSERA_CHECK(start.size() == transfer.tensor.size() && size.size() == transfer.tensor.size(),
                "box {} of a tensor {}", to_string(transfer.box), to_string(transfer.tensor));
  Rows rows{.outer = size.size()};
  bool contiguous = true;
  std::int64_t stride = 1;
  for (std::size_t d = size.size(); d-- > 0;) {
    if (contiguous) {
      rows.row *= size[d];
      rows.outer = d;
      contiguous = size[d] == transfer.tensor[d];
    }
    rows.start += start[d] * stride;
    stride *= transfer.tensor[d];
  }
  return rows;
}

/// Elements from the box's first row to its index-th.
std::int64_t row_offset(const BoxTransfer& transfer, const Rows& rows, std::int64_t index) {
  std::int64_t stride = 1;
  for (std::size_t d = transfer.tensor.size(); d-- > rows.outer;) stride *= transfer.tensor[d];
  std::int64_t offset = 0;
  for (std::size_t d = rows.outer; d-- > 0;) {
    offset += index % transfer.box.size[d] * stride;
    index /= transfer.box.size[d];
    stride *= transfer.tensor[d];
  }
  return offset;
}

}  // namespace

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
      const auto rows = rows_of(transfer);
      const auto row_bytes = rows.row * size_;
      for (auto at = std::max(begin, start); at < last;) {
        const auto in_box = at - start;
        const auto in_row = in_box % row_bytes;
        const auto run = std::min(row_bytes - in_row, last - at);
        use((rows.start + row_offset(transfer, rows, in_box / row_bytes)) * size_ + in_row, at - begin, run);
        at += run;
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
