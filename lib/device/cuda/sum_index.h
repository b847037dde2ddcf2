#pragma once

#include <cstdint>

#include "device/cuda/index.h"
#include "device/reduction.h"

// Which terms of a reduce_sum a block or a team of threads adds. Needs no CUDA.
namespace tessera::device::cuda {

/// A Walk as a kernel takes it. Its index has 32 bits: a division of 64 bits is a call.
struct Offsets {
  static constexpr int kMost = 8;
  int dims = 0;
  std::uint32_t sizes[kMost] = {};
  std::int64_t strides[kMost] = {};

  /// Throws Error (internal) for a walk that a kernel does not take.
  Offsets(const KernelSpec& spec, const Walk& walk);
  /// Of one dimension.
  explicit constexpr Offsets(std::int64_t stride) : dims(1) { strides[0] = stride; }

  constexpr std::int64_t operator()(std::uint32_t index) const {
    std::int64_t sum = 0;
    for (int d = dims - 1; d > 0; index /= sizes[d--]) sum += index % sizes[d] * strides[d];
    return dims == 0 ? 0 : sum + index * strides[0];
  }
};

/// The last dimension is summed: an element of y is a sum over n contiguous elements in each of some rows. Where there
/// is more than one row their terms are counted in 32 bits.
struct RowSums {
  Offsets kept, summed;
  std::int64_t results, rows, n;
  SumCut cut;  // of rows * n elements

  struct Task {
    std::uint32_t result;
    Range terms;
  };
  /// Parts of one result follow each other.
  constexpr Task task(std::int64_t number) const {
    const auto parts = static_cast<std::uint32_t>(cut.parts), task = static_cast<std::uint32_t>(number);
    const auto k = parts == 1 ? task : task / parts;
    return {k, part_of(number - static_cast<std::int64_t>(k) * parts, cut.length, rows * n)};
  }
  /// Where a term lies, from the first one on.
  constexpr std::int64_t offset(std::int64_t term) const {
    const auto i = static_cast<std::uint32_t>(term), row = i / static_cast<std::uint32_t>(n);
    return summed(row) + (i - row * static_cast<std::uint32_t>(n));
  }
};

/// The last dimension stays: an element of y is a sum over some rows, in its column. Tasks are counted in 32 bits.
struct ColumnSums {
  Offsets kept, summed;
  std::int64_t results, rows, cols;
  SumCut cut;  // of the rows

  constexpr std::int64_t tiles(int columns) const { return (cols + columns - 1) / columns; }

  struct Task {
    std::uint32_t result;
    std::int64_t part;    // of all results' parts
    std::int64_t column;  // the tile's first
    Range rows;
  };
  /// Tiles of `columns` of one part of one result follow each other.
  constexpr Task task(std::int64_t number, int columns) const {
    const auto tiles_of_part = static_cast<std::uint32_t>(tiles(columns));
    const auto parts = static_cast<std::uint32_t>(cut.parts), task = static_cast<std::uint32_t>(number);
    const auto part = task / tiles_of_part, k = part / parts;
    return {k, part, static_cast<std::int64_t>(task - part * tiles_of_part) * columns,
            part_of(part - k * parts, cut.length, rows)};
  }
};

}  // namespace tessera::device::cuda
