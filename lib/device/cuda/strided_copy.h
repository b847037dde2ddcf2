#pragma once

#include <cstdint>
#include <vector>

// Every movement between differently shaped boxes is one walk over the output's elements. Needs no CUDA.
namespace tessera::device::cuda {

/// A dimension of a walk: steps of x and of y in elements. Where the index is not in [low, high), y gets zeros.
struct CopyDim {
  std::int64_t size, x_stride, y_stride;
  std::int64_t low = 0, high = size;
};

/// A walk as the kernel reads it, in units of as many bytes as divide all steps.
struct StridedCopy {
  static constexpr int kMostDims = 8;
  struct Dim {
    std::int64_t size, x_stride, y_stride, low, high;
    std::uint32_t magic, shift;  // i / size = (umulhi(i, magic) + i) >> shift, for i < 2^31
  };

  Dim dims[kMostDims];
  int dim_count;
  int unit;              // bytes: 16, 8, 4, 2 or 1
  std::int64_t count;    // units
  std::int64_t x_start;  // may lie outside x where the first elements are zeros
  std::int64_t y_start;
  bool bounded;  // some elements are zeros
};

/// The units of x and y of a step of the walk, and whether y gets x's and not zeros. Index as in index.h.
struct CopyUnits {
  std::int64_t from, to;
  bool inside;
};
template <typename Index, bool kBounded>
constexpr CopyUnits units_of(const StridedCopy& copy, std::int64_t at) {
  CopyUnits units{copy.x_start, copy.y_start, true};
  auto rest = static_cast<Index>(at);
  for (int d = copy.dim_count - 1; d >= 0; --d) {
    const auto& dim = copy.dims[d];
    auto i = rest;
    if (d > 0) {
      if constexpr (sizeof(Index) == 4) {
        rest = (static_cast<std::uint32_t>(std::uint64_t{i} * dim.magic >> 32) + i) >> dim.shift;
      } else {
        rest = i / dim.size;
      }
      i -= rest * static_cast<Index>(dim.size);
    }
    units.from += i * dim.x_stride;
    units.to += i * dim.y_stride;
    if (kBounded) units.inside &= i >= dim.low && i < dim.high;
  }
  return units;
}

/// `start`s and strides are in elements of `size` bytes; units have at most `widest` bytes. Joins dimensions that
/// follow each other in both tensors. Throws Error (internal) if more than kMostDims are left.
StridedCopy plan_copy(std::vector<CopyDim> dims, std::int64_t x_start, std::int64_t y_start, std::int64_t size,
                      int widest = 16);

}  // namespace tessera::device::cuda
