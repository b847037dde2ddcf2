#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#include "device/cuda/launch.h"
#include "device/cuda/team.h"
#include "device/operands.h"

// Kernels that work row by row: a team of threads for each row. Included by .cu files only.
namespace tessera::device::cuda {

/// How a row is spread: over `kLanes` threads, of which each keeps `kHeld` elements in registers (0: it reads them
/// again each time), kWidth neighbours at a time.
template <int kLanesOfRow, int kHeldOfThread, int kNeighbours>
struct RowLayout {
  static constexpr int kLanes = kLanesOfRow, kHeld = kHeldOfThread, kWidth = kNeighbours;
  static constexpr int kThreads = kLanes < 256 ? 256 : kLanes;
  static constexpr int kRows = kThreads / kLanes;  // of a block

  static LaunchShape shape(std::int64_t rows) { return {blocks_for(rows, kRows), kThreads}; }
};

/// Whether rows may be read 16 bytes at a time.
template <class... P>
int row_width(const Rows& rows, const P*... pointers) {
  return rows.cols % 4 == 0 && (... && (reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0)) ? 4 : 1;
}

/// f(RowLayout) for rows that are read more than once: from memory the first time only, up to 8192 columns.
template <class F>
void with_held_rows(const Rows& rows, int width, F f) {
  const auto choose = [&]<int kWidth>() {
    if (rows.cols <= 32) return f(RowLayout<8, 4, kWidth>());
    if (rows.cols <= 256) return f(RowLayout<32, 8, kWidth>());
    if (rows.cols <= 1024) return f(RowLayout<32, 32, kWidth>());
    if (rows.cols <= 2048) return f(RowLayout<256, 8, kWidth>());
    if (rows.cols <= 8192) return f(RowLayout<256, 32, kWidth>());
    return f(RowLayout<1024, 0, kWidth>());  // few rows at a time: the second read finds them in the cache
  };
  return width == 4 ? choose.template operator()<4>() : choose.template operator()<1>();
}

/// f(RowLayout) for rows that are read once.
template <class F>
void with_rows(const Rows& rows, int width, F f) {
  const auto choose = [&]<int kWidth>() {
    if (rows.cols <= 32) return f(RowLayout<8, 0, kWidth>());
    if (rows.cols <= 1024) return f(RowLayout<32, 0, kWidth>());
    return f(RowLayout<256, 0, kWidth>());
  };
  return width == 4 ? choose.template operator()<4>() : choose.template operator()<1>();
}

/// f(row, there) for each row of the thread's team. All teams of a warp stay together: where there is no row for one of
/// them `there` is false, and the row has no columns. kBackward: the last row first, which is what the forward pass has
/// left in the cache.
enum class RowOrder : std::uint8_t { kForward, kBackward };
template <class Layout, RowOrder kOrder = RowOrder::kForward, class F>
__device__ void each_row(std::int64_t rows, F f) {
  const auto team = static_cast<std::int64_t>(threadIdx.x / Layout::kLanes);
  const auto stride = static_cast<std::int64_t>(gridDim.x) * Layout::kRows;
  for (auto first = static_cast<std::int64_t>(blockIdx.x) * Layout::kRows; first < rows; first += stride) {
    const bool there = first + team < rows;
    const auto row = there ? first + team : 0;
    f(kOrder == RowOrder::kForward ? row : rows - 1 - row, there);
  }
}

/// Neighbours between memory and registers.
template <int kWidth>
__device__ void read_neighbours(const float* from, float* to) {
  if constexpr (kWidth == 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  } else {
    to[0] = *from;
  }
}
template <int kWidth>
__device__ void write_neighbours(float* to, const float* from) {
  if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
  } else {
    *to = from[0];
  }
}

/// One row of one tensor or of two with the same shape, as its team sees it.
template <class Layout, int kTensors>
class Row {
  static constexpr int kWidth = Layout::kWidth, kStep = Layout::kLanes * kWidth;

 public:
  template <class... P>
  __device__ explicit Row(std::int64_t cols, const P*... tensors) : tensors_{tensors...}, cols_(cols) {
    if constexpr (Layout::kHeld > 0) {
#pragma unroll
      for (int k = 0; k < Layout::kHeld; k += kWidth) {
        const auto c = first() + k * Layout::kLanes;
        if (c < cols) load(c, k);
      }
    }
  }

  /// f(first column, values) for each kWidth neighbours of the thread.
  template <class F>
  __device__ void chunks(F f) const {
    float x[kTensors][kWidth];
    if constexpr (Layout::kHeld > 0) {
#pragma unroll
      for (int k = 0; k < Layout::kHeld; k += kWidth) {
        const auto c = first() + k * Layout::kLanes;
        if (c >= cols_) continue;
#pragma unroll
        for (int t = 0; t < kTensors; ++t)
#pragma unroll
          for (int j = 0; j < kWidth; ++j) x[t][j] = held_[t][k + j];
        f(c, x);
      }
    } else {
#pragma unroll 4
      for (std::int64_t c = first(); c < cols_; c += kStep) {
#pragma unroll
        for (int t = 0; t < kTensors; ++t) read_neighbours<kWidth>(tensors_[t] + c, x[t]);
        f(c, x);
      }
    }
  }

  /// f(column, value...) for each of the thread's elements.
  template <class F>
  __device__ void each(F f) const {
    chunks([&](auto c, const float(&x)[kTensors][kWidth]) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) call(f, c + j, x, j);
    });
  }

  /// y[column] = f(column, value...)
  template <class F>
  __device__ void store(float* y, F f) const {
    chunks([&](auto c, const float(&x)[kTensors][kWidth]) {
      float results[kWidth];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) results[j] = call(f, c + j, x, j);
      write_neighbours<kWidth>(y + c, results);
    });
  }

  /// Sum of f(column, value...) over the row, in every thread of the team.
  template <class F>
  __device__ float sum(F f) const {
    float total = 0;
    each([&](auto... a) { total += f(a...); });
    return team_sum<Layout::kLanes>(total);
  }

  /// The largest value of the first tensor: -inf of none, NaN if one is.
  __device__ float max() const {
    float m = -INFINITY;
    chunks([&](auto, const float(&x)[kTensors][kWidth]) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) m = larger(m, x[0][j]);
    });
    return team_reduce<Layout::kLanes>(m, [](float a, float b) { return larger(a, b); });
  }

  /// The largest value m of the first tensor and the sum of exp(x - m); the row is read once.
  __device__ MaxSum max_and_sum_exp() const {
    if constexpr (Layout::kHeld > 0) {
      const float m = max();
      return {m, sum([m](auto, float x, auto...) { return expf(x - m); })};
    } else {
      MaxSum so_far{-INFINITY, 0};
      chunks([&](auto, const float(&x)[kTensors][kWidth]) {
        float m = so_far.max;
#pragma unroll
        for (int j = 0; j < kWidth; ++j) m = larger(m, x[0][j]);
        if (m == -INFINITY) return;
        float sum = m == so_far.max ? so_far.sum : so_far.sum * expf(so_far.max - m);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) sum += expf(x[0][j] - m);
        so_far = {m, sum};
      });
      const auto all =
          team_reduce<Layout::kLanes>(so_far, [](const MaxSum& a, const MaxSum& b) { return merge(a, b); });
      return {all.max, all.max - all.max == 0 ? all.sum : NAN};  // exp(inf - inf)
    }
  }

 private:
  /// The column of the thread's first element.
  static __device__ int first() { return static_cast<int>(threadIdx.x % Layout::kLanes) * kWidth; }

  __device__ void load(std::int64_t c, int k) {
#pragma unroll
    for (int t = 0; t < kTensors; ++t) read_neighbours<kWidth>(tensors_[t] + c, held_[t] + k);
  }

  template <class F, class C>
  static __device__ auto call(F& f, C c, const float (&x)[kTensors][kWidth], int j) {
    if constexpr (kTensors == 1) {
      return f(c, x[0][j]);
    } else {
      return f(c, x[0][j], x[1][j]);
    }
  }

  const float* tensors_[kTensors];
  std::int64_t cols_;
  float held_[kTensors][Layout::kHeld > 0 ? Layout::kHeld : 1];
};

/// Whether the thread writes what its team has computed.
template <class Layout>
__device__ bool leads(bool there) {
  return there && threadIdx.x % Layout::kLanes == 0;
}

}  // namespace tessera::device::cuda
