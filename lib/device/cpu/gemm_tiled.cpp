// Our own implementation: packed panels that all threads share, and a tile of the result that stays in registers. After
// K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34, 2008. What it has over
// a library called on parts: the threads pack a matrix once for all of them, and the result is not zeroed before.
#include <algorithm>
#include <omp.h>

#include <hwy/cache_control.h>

#include "device/cpu/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/gemm_tiled.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef TESSERA_DEVICE_CPU_GEMM_TILED_ONCE
#define TESSERA_DEVICE_CPU_GEMM_TILED_ONCE
namespace tessera::device::cpu {

/// A matrix operand as it lies in memory: element (line, k) at data[line * line_stride + k * k_stride], where a line is
/// a row of a or a column of b. One of the strides is 1.
struct Lines {
  const float* data;
  std::int64_t line_stride, k_stride;
};

struct Tile {
  std::int64_t rows, columns;  // of the result, in registers
};

/// A part of the result and the packed panels that it is the product of.
struct Unit {
  const float *a, *b;
  float* y;
  std::int64_t rows, columns, depth, y_stride;
  bool add;  // to what is there
};

constexpr std::int64_t kDepth = 256;      // of the panels: a panel of b stays in the first-level cache
constexpr std::int64_t kMostRows = 2040;  // of a that are packed at a time
constexpr std::int64_t kMostColumns = 4096;
constexpr std::int64_t kUnitRows = 120;  // their panels stay in the second-level cache; a multiple of every tile
constexpr std::int64_t kUnitColumns = 512;
constexpr Tile kLargestTile{12, 32};

constexpr std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

}  // namespace tessera::device::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Vectors = hn::ScalableTag<float>;
constexpr std::int64_t kLanes = hn::MaxLanes(Vectors());
constexpr int kTileRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;  // with two vectors a row: as many sums as registers allow
constexpr std::int64_t kTileColumns = 2 * kLanes;

Tile tile() { return {kTileRows, kTileColumns}; }

/// Panels of `width` lines each, k by k; the last one is filled up with zeros. Lines [begin, end) from `x`, k < depth.
void pack(const Lines& x, std::int64_t begin, std::int64_t end, std::int64_t k0, std::int64_t depth, std::int64_t width,
          float* to) {
  if (x.line_stride != 1) {
    for (auto line = begin; line < end; line += width, to += width * depth) {
      if (line + width > end) std::fill_n(to, width * depth, 0.0F);
      for (std::int64_t l = 0; l < std::min(width, end - line); ++l) {
        const float* from = x.data + (line + l) * x.line_stride + k0;
        for (std::int64_t k = 0; k < depth; ++k) to[k * width + l] = from[k];
      }
    }
    return;
  }
  for (std::int64_t k = 0; k < depth; ++k) {  // along the lines: what is read lies together
    const float* from = x.data + (k0 + k) * x.k_stride;
    float* panel = to + k * width;
    auto line = begin;
    for (; line + width <= end; line += width, panel += width * depth) std::copy_n(from + line, width, panel);
    if (line < end) std::fill(std::copy(from + line, from + end, panel), panel + width, 0.0F);
  }
}

/// One tile: y (+)= the panel of a times the panel of b.
template <bool kWhole>
HWY_INLINE void multiply(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::int64_t depth, float* y,
                         std::int64_t y_stride, std::int64_t rows, std::int64_t columns, bool add) {
  const Vectors d;
  hn::Vec<Vectors> sums[kTileRows][2];
  for (int r = 0; r < kTileRows; ++r) {
    sums[r][0] = sums[r][1] = hn::Zero(d);
    if (kWhole) hwy::Prefetch(y + r * y_stride);
  }
  for (std::int64_t k = 0; k < depth; ++k, a += kTileRows, b += kTileColumns) {
    const auto left = hn::Load(d, b), right = hn::Load(d, b + kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kTileRows; ++r) {
      const auto factor = hn::Set(d, a[r]);
      sums[r][0] = hn::MulAdd(factor, left, sums[r][0]);
      sums[r][1] = hn::MulAdd(factor, right, sums[r][1]);
    }
  }
  if constexpr (kWhole) {
#pragma GCC unroll 12
    for (int r = 0; r < kTileRows; ++r)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        float* to = y + r * y_stride + half * kLanes;
        hn::StoreU(add ? hn::Add(hn::LoadU(d, to), sums[r][half]) : sums[r][half], d, to);
      }
    return;
  }
  HWY_ALIGN float whole[kTileRows * kTileColumns];
  for (int r = 0; r < kTileRows; ++r)
    for (int half = 0; half < 2; ++half) hn::Store(sums[r][half], d, whole + r * kTileColumns + half * kLanes);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      float& to = y[r * y_stride + c];
      to = add ? to + whole[r * kTileColumns + c] : whole[r * kTileColumns + c];
    }
}

void multiply_unit(const Unit& u) {
  for (std::int64_t c = 0; c < u.columns; c += kTileColumns) {
    const float* b = u.b + c * u.depth;
    const auto columns = std::min(kTileColumns, u.columns - c);
    for (std::int64_t r = 0; r < u.rows; r += kTileRows) {
      const float* a = u.a + r * u.depth;
      float* y = u.y + r * u.y_stride + c;
      const auto rows = std::min<std::int64_t>(kTileRows, u.rows - r);
      if (rows == kTileRows && columns == kTileColumns) {
        multiply<true>(a, b, u.depth, y, u.y_stride, rows, columns, u.add);
      } else {
        multiply<false>(a, b, u.depth, y, u.y_stride, rows, columns, u.add);
      }
    }
  }
}

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::device::cpu {
namespace {

HWY_EXPORT(tile);
HWY_EXPORT(pack);
HWY_EXPORT(multiply_unit);

std::int64_t a_floats(const MatmulShape& s) {
  return round_up(std::min(s.m, kMostRows), kLargestTile.rows) * std::min(s.k, kDepth);
}
std::int64_t b_floats(const MatmulShape& s) {
  return round_up(std::min(s.n, kMostColumns), kLargestTile.columns) * std::min(s.k, kDepth);
}

class TiledGemm final : public Gemm {
 public:
  TiledGemm(const GemmSpec& spec, Context& context)
      : shape_(spec.shape), threads_(context.threads), tile_(HWY_DYNAMIC_DISPATCH(tile)()) {
    b_ = context.scratch.take<float>(tiled_scratch_bytes(shape_));
    a_ = b_ + b_floats(shape_);
  }

  void run(const GemmOperands& o, Epilogue* epilogue) override {
    const auto m = shape_.m, n = shape_.n, k = shape_.k;
    const Lines a{o.a, shape_.transpose_a ? 1 : k, shape_.transpose_a ? m : 1};
    const Lines b{o.b, shape_.transpose_b ? k : 1, shape_.transpose_b ? 1 : n};
#pragma omp parallel num_threads(threads_)
    for (std::int64_t row = 0; row < m; row += kMostRows)
      for (std::int64_t column = 0; column < n; column += kMostColumns)
        for (std::int64_t k0 = 0; k0 < k; k0 += kDepth)
          multiply_block(o, epilogue, a, b, {row, std::min(m, row + kMostRows)},
                         {column, std::min(n, column + kMostColumns)}, k0);
  }

 private:
  struct Range {
    std::int64_t begin, end;
  };

  /// Each thread of a team calls it. What one thread packed is read by all, so they meet after packing and at the end.
  void multiply_block(const GemmOperands& o, Epilogue* epilogue, const Lines& a, const Lines& b, Range rows,
                      Range columns, std::int64_t k0) const {
    const auto depth = std::min(kDepth, shape_.k - k0);
#pragma omp for schedule(static) nowait
    for (std::int64_t row = rows.begin; row < rows.end; row += kUnitRows) HWY_DYNAMIC_DISPATCH(pack)
    (a, row, std::min(rows.end, row + kUnitRows), k0, depth, tile_.rows, a_ + (row - rows.begin) * depth);
#pragma omp for schedule(static)
    for (std::int64_t column = columns.begin; column < columns.end; column += kUnitColumns / 4)
      HWY_DYNAMIC_DISPATCH(pack)
    (b, column, std::min(columns.end, column + kUnitColumns / 4), k0, depth, tile_.columns,
     b_ + (column - columns.begin) * depth);

    const auto across = (columns.end - columns.begin + kUnitColumns - 1) / kUnitColumns;
    const auto down = (rows.end - rows.begin + kUnitRows - 1) / kUnitRows;
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t unit = 0; unit < down * across; ++unit) {
      const auto row = rows.begin + unit / across * kUnitRows, column = columns.begin + unit % across * kUnitColumns;
      const auto row_end = std::min(rows.end, row + kUnitRows),
                 column_end = std::min(columns.end, column + kUnitColumns);
      HWY_DYNAMIC_DISPATCH(multiply_unit)
      ({a_ + (row - rows.begin) * depth, b_ + (column - columns.begin) * depth, o.y + row * shape_.n + column,
        row_end - row, column_end - column, depth, shape_.n, k0 > 0 || o.beta != 0});
      if (epilogue != nullptr && k0 + depth == shape_.k)
        epilogue->run(row, row_end, column, column_end, omp_get_thread_num());
    }
  }

  MatmulShape shape_;
  int threads_;
  Tile tile_;
  float *a_, *b_;  // packed
};

}  // namespace

std::int64_t tiled_scratch_bytes(const MatmulShape& shape) {
  return (a_floats(shape) + b_floats(shape)) * static_cast<std::int64_t>(sizeof(float));
}

std::unique_ptr<Gemm> make_tiled_gemm(const GemmSpec& spec, Context& context) {
  return std::make_unique<TiledGemm>(spec, context);
}

}  // namespace tessera::device::cpu
#endif  // HWY_ONCE
