#include "device/cuda/kernels.h"
#include "device/cuda/rows.h"
#include "device/cuda/scratch.h"
#include "device/norm_spec.h"

// With g = gamma dy, xhat = (x - mean) rstd and means over a row:
//   dx = rstd (g - mean(g) - xhat mean(g xhat)),  dgamma = sum over rows of dy xhat,  dbeta = sum over rows of dy.
// A thread has the same columns of all rows of its team, so it sums its part of dgamma and dbeta beside. Each block
// leaves one row of partial sums; a second kernel adds these in order.

namespace tessera::device::cuda {
namespace {

struct Operands {
  const float *dy, *x, *mean, *rstd;
  const float* gamma;  // or null
  const double* sums;  // of g and g xhat over all parts of each row; or null: the row is whole
  float* dx;           // or null
  float* partials;     // (blocks, 2, cols); or null
  double all_cols;
};

/// The two means of row r.
template <class Layout>
__device__ TwoOf<float> means_of(const Operands& o, std::int64_t r, const TwoOf<float>& own) {
  if (o.sums != nullptr)
    return {static_cast<float>(o.sums[2 * r] / o.all_cols), static_cast<float>(o.sums[2 * r + 1] / o.all_cols)};
  const auto sums = team_sum<Layout::kLanes>(own);
  const float part = 1 / static_cast<float>(o.all_cols);
  return {sums.a * part, sums.b * part};
}

template <int kWidth>
__device__ void scale_by(const float* gamma, std::int64_t c, float* g) {
  if (gamma == nullptr) return;
  float factor[kWidth];
  read_neighbours<kWidth>(gamma + c, factor);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) g[j] *= factor[j];
}

/// Adds kWidth neighbours of a row: own are the sums of g and g xhat.
template <int kWidth>
__device__ void add_to(TwoOf<float>& own, const float* g, const float* xhat) {
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    own.a += g[j];
    own.b += g[j] * xhat[j];
  }
}

template <int kWidth>
__device__ void write_dx(float* dx, const float* g, const float* xhat, const TwoOf<float>& means, float rstd) {
  float d[kWidth];
#pragma unroll
  for (int j = 0; j < kWidth; ++j) d[j] = (g[j] - means.a - xhat[j] * means.b) * rstd;
  write_neighbours<kWidth>(dx, d);
}

/// The teams' sums, one after the other, in the block's partial row.
template <class Layout>
__device__ void add_teams(const float (&dgamma)[Layout::kHeld], const float (&dbeta)[Layout::kHeld], float* partial,
                          std::int64_t cols) {
  constexpr int kMostCols = Layout::kLanes * Layout::kHeld;
  __shared__ float sums[2][Layout::kRows > 1 ? kMostCols : 1];
  const int lane = static_cast<int>(threadIdx.x) % Layout::kLanes,
            team = static_cast<int>(threadIdx.x) / Layout::kLanes;
  const auto each_column = [&](const auto& f) {
#pragma unroll
    for (int k = 0; k < Layout::kHeld; ++k) {
      const int c = (k / Layout::kWidth * Layout::kLanes + lane) * Layout::kWidth + k % Layout::kWidth;
      if (c < cols) f(c, dgamma[k], dbeta[k]);
    }
  };
  if constexpr (Layout::kRows > 1) {
    for (int t = 0; t < Layout::kRows; ++t) {
      if (t == team)
        each_column([&](int c, float g, float b) {
          sums[0][c] = t == 0 ? g : sums[0][c] + g;
          sums[1][c] = t == 0 ? b : sums[1][c] + b;
        });
      __syncthreads();
    }
    for (int c = static_cast<int>(threadIdx.x); c < cols; c += Layout::kThreads) {
      partial[c] = sums[0][c];
      partial[cols + c] = sums[1][c];
    }
  } else {
    each_column([&](int c, float g, float b) {
      partial[c] = g;
      partial[cols + c] = b;
    });
  }
}

/// Rows that registers hold.
template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads) layer_norm_backward(const Operands o, Rows rows) {
  constexpr int kWidth = Layout::kWidth;
  const auto lane = static_cast<int>(threadIdx.x % Layout::kLanes);
  float dgamma[Layout::kHeld] = {}, dbeta[Layout::kHeld] = {};
  each_row<Layout, RowOrder::kBackward>(rows.rows, [&](std::int64_t r, bool there) {
    const auto cols = there ? rows.cols : 0;
    const auto at = r * rows.cols;
    const float mean = o.mean[r], rstd = o.rstd[r];
    float dy[Layout::kHeld], xhat[Layout::kHeld];
    const auto each = [&](const auto& f) {
#pragma unroll
      for (int k = 0; k < Layout::kHeld; k += kWidth) {
        const auto c = lane * kWidth + k * Layout::kLanes;
        if (c < cols) f(c, k);
      }
    };
    each([&](int c, int k) {
      read_neighbours<kWidth>(o.dy + at + c, dy + k);
      read_neighbours<kWidth>(o.x + at + c, xhat + k);
    });
    each([&](int, int k) {
#pragma unroll
      for (int j = k; j < k + kWidth; ++j) {
        xhat[j] = (xhat[j] - mean) * rstd;
        dgamma[j] += dy[j] * xhat[j];
        dbeta[j] += dy[j];
      }
    });
    if (o.dx == nullptr) return;
    const auto each_g = [&](const auto& f) {
      each([&](int c, int k) {
        float g[kWidth];
#pragma unroll
        for (int j = 0; j < kWidth; ++j) g[j] = dy[k + j];
        scale_by<kWidth>(o.gamma, c, g);
        f(c, g, xhat + k);
      });
    };
    TwoOf<float> own{0, 0};
    if (o.sums == nullptr) each_g([&](int, const float* g, const float* h) { add_to<kWidth>(own, g, h); });
    const auto means = means_of<Layout>(o, r, own);
    each_g([&](int c, const float* g, const float* h) { write_dx<kWidth>(o.dx + at + c, g, h, means, rstd); });
  });
  if (o.partials != nullptr)
    add_teams<Layout>(dgamma, dbeta, o.partials + static_cast<std::int64_t>(blockIdx.x) * 2 * rows.cols, rows.cols);
}

/// Longer rows: they are read twice, and the partial sums kept in memory.
template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads) layer_norm_backward_long(const Operands o, Rows rows) {
  constexpr int kWidth = Layout::kWidth;
  float* partial = o.partials + static_cast<std::int64_t>(blockIdx.x) * 2 * rows.cols;
  bool first = true;
  each_row<Layout, RowOrder::kBackward>(rows.rows, [&](std::int64_t r, bool) {
    const auto at = r * rows.cols;
    const float mean = o.mean[r], rstd = o.rstd[r];
    const auto each = [&](const auto& f) {
      for (std::int64_t c = threadIdx.x * kWidth; c < rows.cols; c += Layout::kLanes * kWidth) {
        float dy[kWidth], xhat[kWidth];
        read_neighbours<kWidth>(o.dy + at + c, dy);
        read_neighbours<kWidth>(o.x + at + c, xhat);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) xhat[j] = (xhat[j] - mean) * rstd;
        f(c, dy, xhat);
      }
    };
    TwoOf<float> own{0, 0};
    each([&](std::int64_t c, float* dy, const float* xhat) {
      if (o.partials != nullptr) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          auto *dgamma = partial + c + j, *dbeta = dgamma + rows.cols;
          *dgamma = (first ? 0 : *dgamma) + dy[j] * xhat[j];
          *dbeta = (first ? 0 : *dbeta) + dy[j];
        }
      }
      scale_by<kWidth>(o.gamma, c, dy);
      add_to<kWidth>(own, dy, xhat);
    });
    first = false;
    if (o.dx == nullptr) return;
    const auto means = means_of<Layout>(o, r, own);
    each([&](std::int64_t c, float* dy, const float* xhat) {
      scale_by<kWidth>(o.gamma, c, dy);
      write_dx<kWidth>(o.dx + at + c, dy, xhat, means, rstd);
    });
  });
}

constexpr int kColumnsOfBlock = 32, kRowsOfBlock = 8;

/// dgamma and dbeta of (blocks, 2, cols) partial sums; null ones are not asked for. A block has 32 columns of one.
__global__ void __launch_bounds__(kColumnsOfBlock* kRowsOfBlock)
    add_partials(const float* partials, float* dgamma, float* dbeta, std::int64_t blocks, std::int64_t cols, bool add) {
  __shared__ double sums[kRowsOfBlock][kColumnsOfBlock];
  const auto column = static_cast<int>(threadIdx.x) % kColumnsOfBlock;
  const auto first = static_cast<int>(threadIdx.x) / kColumnsOfBlock;
  const auto column_blocks = gridDim.x / 2;
  const bool is_beta = blockIdx.x >= column_blocks;
  float* y = is_beta ? dbeta : dgamma;
  if (y == nullptr) return;
  const auto c = static_cast<std::int64_t>(blockIdx.x % column_blocks) * kColumnsOfBlock + column;
  double sum = 0;
  const auto last = c < cols ? blocks : 0;
#pragma unroll 4
  for (std::int64_t b = first; b < last; b += kRowsOfBlock) sum += partials[(2 * b + (is_beta ? 1 : 0)) * cols + c];
  sums[first][column] = sum;
  __syncthreads();
  if (first > 0 || c >= cols) return;
  double total = add ? y[c] : 0;
  for (const auto& row : sums) total += row[column];
  y[c] = static_cast<float>(total);
}

/// Sums of g and of g xhat over each row, in double.
template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    layer_norm_backward_sums(const Operands o, double* sums, Rows rows) {
  constexpr int kWidth = Layout::kWidth;
  each_row<Layout, RowOrder::kBackward>(rows.rows, [&](std::int64_t r, bool there) {
    const auto at = r * rows.cols;
    const float mean = o.mean[r], rstd = o.rstd[r];
    Two own{0, 0};
    Row<Layout, 2>(there ? rows.cols : 0, o.dy + at, o.x + at).chunks([&](auto c, const auto& v) {
      float factor[kWidth];
      if (o.gamma != nullptr) read_neighbours<kWidth>(o.gamma + c, factor);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const double g = o.gamma == nullptr ? v[0][j] : static_cast<double>(v[0][j]) * factor[j];
        own.a += g;
        own.b += g * ((static_cast<double>(v[1][j]) - mean) * rstd);
      }
    });
    own = team_sum<Layout::kLanes>(own);
    if (!leads<Layout>(there)) return;
    sums[2 * r] = own.a;
    sums[2 * r + 1] = own.b;
  });
}

/// f(kernel, threads): the kernel for rows of so many columns.
template <int kWidth, class F>
void with_backward(std::int64_t cols, const F& f) {
  const auto held = [&]<class Layout>(Layout) { f(layer_norm_backward<Layout>, Layout::kThreads); };
  if (cols <= 32) return held(RowLayout<8, 4, kWidth>());
  if (cols <= 256) return held(RowLayout<32, 8, kWidth>());
  if (cols <= 512) return held(RowLayout<32, 16, kWidth>());
  if (cols <= 1024) return held(RowLayout<32, 32, kWidth>());
  if (cols <= 2048) return held(RowLayout<256, 8, kWidth>());
  if (cols <= 4096) return held(RowLayout<256, 16, kWidth>());
  if (cols <= 8192) return held(RowLayout<256, 32, kWidth>());
  using Long = RowLayout<1024, 0, kWidth>;
  f(layer_norm_backward_long<Long>, Long::kThreads);
}

std::unique_ptr<Kernel> make_backward(const KernelSpec& spec, Context& context, Stream stream, bool sums) {
  const auto backward = parse_layer_norm_backward(spec, sums);
  const Rows rows{backward.norm.rows, backward.norm.cols};
  auto* partials = context.scratch.take<float>(scratch_bytes(spec));
  return kernel_of(context, stream, [=](const Args& args) {
    const auto blocks = layer_norm_blocks(rows);
    const Operands o{.dy = args.in(0),
                     .x = args.in(1),
                     .mean = args.in(2),
                     .rstd = args.in(3),
                     .gamma = backward.norm.gamma(args),
                     .sums = sums ? args.in<double>(4) : nullptr,
                     .dx = backward.dx < 0 ? nullptr : args.out(backward.dx),
                     .partials = backward.parameters() ? partials : nullptr,
                     .all_cols = backward.norm.all_cols};
    const auto run = [&](auto kernel, int threads) { launch(args.stream, {blocks, threads}, kernel, o, rows); };
    if (row_width(rows, o.dy, o.x, o.gamma, o.dx, o.partials) == 4) {
      with_backward<4>(rows.cols, run);
    } else {
      with_backward<1>(rows.cols, run);
    }
    if (!backward.parameters()) return;
    const auto column_blocks = (rows.cols + kColumnsOfBlock - 1) / kColumnsOfBlock;  // each once: they do not stride
    launch(args.stream, {2 * column_blocks, kColumnsOfBlock * kRowsOfBlock}, add_partials, partials,
           backward.dgamma < 0 ? nullptr : args.out(backward.dgamma),
           backward.dbeta < 0 ? nullptr : args.out(backward.dbeta), blocks, rows.cols,
           backward.accumulate && args.micro_batch > 0);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_layer_norm_backward(const KernelSpec& spec, Context& context, Stream stream) {
  return make_backward(spec, context, stream, false);
}

std::unique_ptr<Kernel> make_layer_norm_backward_finish(const KernelSpec& spec, Context& context, Stream stream) {
  return make_backward(spec, context, stream, true);
}

std::unique_ptr<Kernel> make_layer_norm_backward_sums(const KernelSpec& spec, Context& context, Stream stream) {
  const auto norm = parse_layer_norm_backward_sums(spec);
  return kernel_of(context, stream, [norm, rows = Rows{norm.rows, norm.cols}](const Args& args) {
    const Operands o{.dy = args.in(0),
                     .x = args.in(1),
                     .mean = args.in(2),
                     .rstd = args.in(3),
                     .gamma = norm.gamma(args),
                     .sums = nullptr,
                     .dx = nullptr,
                     .partials = nullptr,
                     .all_cols = norm.all_cols};
    with_rows(rows, row_width(rows, o.dy, o.x, o.gamma), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), layer_norm_backward_sums<Layout>, o, args.out<double>(0), rows);
    });
  });
}

}  // namespace tessera::device::cuda
