#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace tessera::comm {

inline const std::byte* bytes_of(const void* memory) { return static_cast<const std::byte*>(memory); }
inline std::byte* bytes_of(void* memory) { return static_cast<std::byte*>(memory); }

inline void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

/// The part of `length` elements that one of `parts` owners has; starts at a multiple of 16 elements.
inline std::pair<std::int64_t, std::int64_t> slice(std::int64_t length, int index, int parts) {
  const auto each = ((length + parts - 1) / parts + 15) / 16 * 16;
  return {std::min(length, index * each), std::min(length, (index + 1) * each)};
}

/// The pieces of a call laid end to end, where `in` of a piece is `slots` chunks: one sequence of elements in every
/// slot. A window [begin, end) of it is what one round of a collective handles.
struct Sequence {
  const std::vector<Piece>& pieces;
  int slots = 1;
  std::int64_t size = 0;  // bytes of an element

  std::int64_t chunk(const Piece& piece) const { return piece.count / slots; }

  std::int64_t length() const {
    std::int64_t sum = 0;
    for (const auto& piece : pieces) sum += chunk(piece);
    return sum;
  }

  /// use(piece, first, count, at): elements [first, first + count) of each chunk of the piece lie at `at` in the
  /// window.
  template <typename Use>
  void for_each_run(std::int64_t begin, std::int64_t end, Use use) const {
    std::int64_t start = 0;
    for (const auto& piece : pieces) {
      const auto first = std::max(begin, start);
      const auto last = std::min(end, start + chunk(piece));
      if (first < last) use(piece, first - start, last - first, first - begin);
      start += chunk(piece);
    }
  }

  /// Copies a window of `in` to `to`: slots rows of `width` elements.
  void pack(std::int64_t begin, std::int64_t end, std::byte* to, std::int64_t width) const {
    for_each_run(begin, end, [&](const Piece& piece, std::int64_t first, std::int64_t count, std::int64_t at) {
      for (int slot = 0; slot < slots; ++slot) {
        copy_bytes(to + (slot * width + at) * size, bytes_of(piece.in) + (slot * chunk(piece) + first) * size,
                   count * size);
      }
    });
  }

  /// Copies one row to chunk `slot` of `out`.
  void unpack(std::int64_t begin, std::int64_t end, const std::byte* from, int slot) const {
    for_each_run(begin, end, [&](const Piece& piece, std::int64_t first, std::int64_t count, std::int64_t at) {
      copy_bytes(bytes_of(piece.out) + (slot * chunk(piece) + first) * size, from + at * size, count * size);
    });
  }
};

}  // namespace tessera::comm
