#include "device/classes.h"
#include "device/cuda/kernels.h"
#include "device/cuda/rows.h"

namespace tessera::device::cuda {
namespace {

/// Targets after smoothing: y (1 - s) + s / classes.
struct Smoothing {
  float keep, add;

  __device__ float operator()(float y) const { return y * keep + add; }
};

/// -sum y log softmax(x).
template <class Layout>
__device__ float from_logits(const Row<Layout, 2>& row, Smoothing smooth) {
  const auto [m, sum] = row.max_and_sum_exp();
  return -row.sum(
      [m = m, log_sum = logf(sum), smooth](auto, float x, float y) { return smooth(y) * (x - m - log_sum); });
}

/// -sum y log clip(p / sum p).
template <class Layout>
__device__ float from_probabilities(const Row<Layout, 2>& row, Smoothing smooth) {
  const float scale = 1 / row.sum([](auto, float p, float) { return p; });
  return -row.sum([=](auto, float p, float y) {
    const float q = p * scale;
    return q != q ? q : smooth(y) * logf(clip(q));
  });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    categorical_crossentropy(const float* pred, const float* target, float* l, Rows rows, Smoothing smooth,
                             bool logits) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const auto at = r * rows.cols;
    const Row<Layout, 2> row(there ? rows.cols : 0, pred + at, target + at);
    const float loss = logits ? from_logits(row, smooth) : from_probabilities(row, smooth);
    if (leads<Layout>(there)) l[r] = loss;
  });
}

/// dl (softmax(x) sum y - y).
template <class Layout>
__device__ void from_logits_slope(const Row<Layout, 2>& row, float* dx, Smoothing smooth, float dl) {
  const auto [m, sum] = row.max_and_sum_exp();
  const float total = row.sum([smooth](auto, float, float y) { return smooth(y); });
  row.store(dx, [=, m = m, log_sum = logf(sum)](auto, float x, float y) {
    return dl * (expf(x - m - log_sum) * total - smooth(y));
  });
}

/// With q = p / sum p and g = d l / d q = -y / q where q is not clipped: dl (g - sum g q) / sum p.
template <class Layout>
__device__ void from_probabilities_slope(const Row<Layout, 2>& row, float* dp, Smoothing smooth, float dl) {
  const float scale = 1 / row.sum([](auto, float p, float) { return p; });
  const auto slope = [=](float q, float y) {
    return q >= kLeastProbability && q <= kMostProbability ? -smooth(y) / q : 0.0F;
  };
  const float through_sum = row.sum([=](auto, float p, float y) { return slope(p * scale, y) * (p * scale); });
  row.store(dp, [=](auto, float p, float y) { return (slope(p * scale, y) - through_sum) * (dl * scale); });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    categorical_crossentropy_backward(const float* pred, const float* target, const float* dl, float* dpred, Rows rows,
                                      Smoothing smooth, bool logits) {
  each_row<Layout, RowOrder::kBackward>(rows.rows, [&](std::int64_t r, bool there) {
    const auto at = r * rows.cols;
    const Row<Layout, 2> row(there ? rows.cols : 0, pred + at, target + at);
    if (logits) {
      from_logits_slope(row, dpred + at, smooth, dl[r]);
    } else {
      from_probabilities_slope(row, dpred + at, smooth, dl[r]);
    }
  });
}

Smoothing smoothing_of(const KernelSpec& spec, const Rows& rows) {
  const auto s = static_cast<float>(number_or(spec.attributes, "label_smoothing", 0));
  return {1 - s, s / static_cast<float>(rows.cols)};
}

}  // namespace

std::unique_ptr<Kernel> make_categorical_crossentropy(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 2, 1);
  const auto rows = rows_of(input(spec, 0));
  require_input(spec, 1, spec.inputs[0].shape);
  require_output(spec, 0, leading(spec.inputs[0].shape));
  const bool logits = flag(spec.attributes, "from_logits");
  return kernel_of(context, stream, [rows, logits, smooth = smoothing_of(spec, rows)](const Args& args) {
    with_held_rows(rows, row_width(rows, args.in(0), args.in(1)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), categorical_crossentropy<Layout>, args.in(0), args.in(1),
             args.out(0), rows, smooth, logits);
    });
  });
}

std::unique_ptr<Kernel> make_categorical_crossentropy_backward(const KernelSpec& spec, Context& context,
                                                               Stream stream) {
  require_counts(spec, 3, 1);
  const auto rows = rows_of(input(spec, 0));
  require_input(spec, 1, spec.inputs[0].shape);
  require_input(spec, 2, leading(spec.inputs[0].shape));
  require_output(spec, 0, spec.inputs[0].shape);
  const bool logits = flag(spec.attributes, "from_logits");
  return kernel_of(context, stream, [rows, logits, smooth = smoothing_of(spec, rows)](const Args& args) {
    with_held_rows(rows, row_width(rows, args.in(0), args.in(1), args.out(0)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), categorical_crossentropy_backward<Layout>, args.in(0), args.in(1),
             args.in(2), args.out(0), rows, smooth, logits);
    });
  });
}

}  // namespace tessera::device::cuda
