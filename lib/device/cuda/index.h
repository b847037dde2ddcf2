#pragma once

#include <cstdint>

#include "device/cuda/sum_cut.h"

// Which element a thread has in hand, apart from the kernels: so it can be tried with sizes that no memory holds. Index
// is std::uint32_t where all elements can be counted so, as a division costs a third. Needs no CUDA.
namespace tessera::device::cuda {

/// Of the grid's threads, block by block.
constexpr std::int64_t thread_of_grid(unsigned block, unsigned threads, unsigned thread) {
  return static_cast<std::int64_t>(block) * threads + thread;
}
constexpr std::int64_t threads_of_grid(unsigned blocks, unsigned threads) {
  return static_cast<std::int64_t>(blocks) * threads;
}

/// The largest count of elements for 32 bits.
constexpr bool fits_32_bits(std::int64_t count) { return count <= INT32_MAX; }

/// Row and column of an element of a matrix.
struct Cell {
  std::int64_t row, column;
};
template <typename Index>
constexpr Cell cell_of(std::int64_t element, std::int64_t cols) {
  const std::int64_t row = static_cast<Index>(element) / static_cast<Index>(cols);
  return {row, element - row * cols};
}

/// A part of a sum over n terms: from begin to end.
struct Range {
  std::int64_t begin, end;
};
constexpr Range part_of(std::int64_t part, std::int64_t length, std::int64_t n) {
  const auto begin = part * length, end = begin + length;
  return {begin, end < n ? end : n};
}

/// What a kernel leaves of a wrong value in the data: of two the smaller index is the smaller number. An index beyond
/// 32 bits counts as the last. Never all ones, which say that nothing was found.
constexpr std::uint64_t find_of(std::int64_t index, std::int32_t value) {
  constexpr std::int64_t kLast = 0xFFFFFFFE;
  return static_cast<std::uint64_t>(index < kLast ? index : kLast) << 32 | static_cast<std::uint32_t>(value);
}
constexpr std::int64_t index_of_find(std::uint64_t find) { return static_cast<std::int64_t>(find >> 32); }
constexpr std::int32_t value_of_find(std::uint64_t find) { return static_cast<std::int32_t>(find); }

}  // namespace tessera::device::cuda
