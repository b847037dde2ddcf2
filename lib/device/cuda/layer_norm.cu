#include "device/cuda/kernels.h"
#include "device/cuda/rows.h"
#include "device/norm_spec.h"

namespace tessera::device::cuda {
namespace {

/// y = (x - mean) rstd gamma + beta; gamma and beta may be null.
struct Affine {
  const float *gamma, *beta;

  template <class Layout>
  __device__ void store(const Row<Layout, 1>& row, float* y, float mean, float rstd) const {
    constexpr int kWidth = Layout::kWidth;
    row.chunks([&](auto c, const auto& x) {
      float v[kWidth], parameter[kWidth];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) v[j] = (x[0][j] - mean) * rstd;
      if (gamma != nullptr) {
        read_neighbours<kWidth>(gamma + c, parameter);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) v[j] *= parameter[j];
      }
      if (beta != nullptr) {
        read_neighbours<kWidth>(beta + c, parameter);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) v[j] += parameter[j];
      }
      write_neighbours<kWidth>(y + c, v);
    });
  }
};

/// The variance is made of deviations from a first mean, whose own error their sum corrects: no digits cancel.
template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads, Layout::kThreads == 1024 ? 1 : 2)
    layer_norm(const float* x, Affine affine, float* y, float* means, float* rstds, Rows rows, float epsilon) {
  const float part = 1 / static_cast<float>(rows.cols);
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const Row<Layout, 1> row(there ? rows.cols : 0, x + r * rows.cols);
    const float first = row.sum([](auto, float v) { return v; }) * part;
    TwoOf<float> sums{0, 0};
    row.each([&](auto, float v) {
      const float d = v - first;
      sums.a += d;
      sums.b += d * d;
    });
    sums = team_sum<Layout::kLanes>(sums);
    const float error = sums.a * part, variance = fmaxf(sums.b * part - error * error, 0);
    const float mean = first + error, rstd = 1 / sqrtf(variance + epsilon);
    affine.store(row, y + r * rows.cols, mean, rstd);
    if (!leads<Layout>(there)) return;
    means[r] = mean;
    rstds[r] = rstd;
  });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads) row_moments(const float* x, double* sums, Rows rows) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    Two moments{0, 0};
    Row<Layout, 1>(there ? rows.cols : 0, x + r * rows.cols).each([&](auto, float v) {
      moments.a += v;
      moments.b += static_cast<double>(v) * v;
    });
    moments = team_sum<Layout::kLanes>(moments);
    if (!leads<Layout>(there)) return;
    sums[2 * r] = moments.a;
    sums[2 * r + 1] = moments.b;
  });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    layer_norm_finish(const float* x, const double* sums, Affine affine, float* y, float* means, float* rstds,
                      Rows rows, double all_cols, double epsilon) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const double mean = sums[2 * r] / all_cols;
    const double variance = fmax(sums[2 * r + 1] / all_cols - mean * mean, 0.0);
    const auto rstd = static_cast<float>(1 / sqrt(variance + epsilon));
    const Row<Layout, 1> row(there ? rows.cols : 0, x + r * rows.cols);
    affine.store(row, y + r * rows.cols, static_cast<float>(mean), rstd);
    if (!leads<Layout>(there)) return;
    means[r] = static_cast<float>(mean);
    rstds[r] = rstd;
  });
}

}  // namespace

std::unique_ptr<Kernel> make_layer_norm(const KernelSpec& spec, Context& context, Stream stream) {
  const auto norm = parse_layer_norm(spec, false);
  return kernel_of(context, stream, [norm, epsilon = number(spec.attributes, "epsilon")](const Args& args) {
    const Rows rows{norm.rows, norm.cols};
    const Affine affine{norm.gamma(args), norm.beta(args)};
    const int width = row_width(rows, args.in(0), affine.gamma, affine.beta, args.out(0));
    with_held_rows(rows, width, [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), layer_norm<Layout>, args.in(0), affine, args.out(0), args.out(1),
             args.out(2), rows, static_cast<float>(epsilon));
    });
  });
}

std::unique_ptr<Kernel> make_row_moments(const KernelSpec& spec, Context& context, Stream stream) {
  const auto norm = parse_row_moments(spec);
  return kernel_of(context, stream, [rows = Rows{norm.rows, norm.cols}](const Args& args) {
    with_rows(rows, row_width(rows, args.in(0)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), row_moments<Layout>, args.in(0), args.out<double>(0), rows);
    });
  });
}

std::unique_ptr<Kernel> make_layer_norm_finish(const KernelSpec& spec, Context& context, Stream stream) {
  const auto norm = parse_layer_norm(spec, true);
  return kernel_of(context, stream, [norm, epsilon = number(spec.attributes, "epsilon")](const Args& args) {
    const Rows rows{norm.rows, norm.cols};
    const Affine affine{norm.gamma(args), norm.beta(args)};
    const int width = row_width(rows, args.in(0), affine.gamma, affine.beta, args.out(0));
    with_rows(rows, width, [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), layer_norm_finish<Layout>, args.in(0), args.in<double>(1), affine,
             args.out(0), args.out(1), args.out(2), rows, norm.all_cols, epsilon);
    });
  });
}

}  // namespace tessera::device::cuda
