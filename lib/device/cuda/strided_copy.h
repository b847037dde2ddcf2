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

/// `start`s and strides are in elements of `size` bytes; units have at most `widest` bytes. Joins dimensions that
/// follow each other in both tensors. Throws Error (internal) if more than kMostDims are left.
StridedCopy plan_copy(std::vector<CopyDim> dims, std::int64_t x_start, std::int64_t y_start, std::int64_t size,
                      int widest = 16);

}  // namespace tessera::device::cuda
