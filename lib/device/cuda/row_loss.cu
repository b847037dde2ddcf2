#include "device/classes.h"
#include "device/cuda/elementwise_ops.h"
#include "device/cuda/kernels.h"
#include "device/cuda/rows.h"
#include "device/row_loss_spec.h"

namespace tessera::device::cuda {
namespace {

__device__ float smoothed(float y, const RowLossOptions& o) { return y * (1 - o.smoothing) + 0.5F * o.smoothing; }

/// The loss of one prediction p and its target y.
__device__ float value(float p, float y, const RowLossOptions& o) {
  const float e = p - y;
  switch (o.kind) {
    case RowLoss::kMse:
      return e * e;
    case RowLoss::kMae:
      return fabsf(e);
    case RowLoss::kHuber:
      return fabsf(e) > o.delta ? o.delta * (fabsf(e) - 0.5F * o.delta) : 0.5F * (e * e);
    case RowLoss::kBinaryLogits:
      return op::softplus(p) - p * smoothed(y, o);
    case RowLoss::kBinaryProbabilities:
      break;
  }
  const float t = smoothed(y, o), q = clip(p);
  return -(t * logf(q) + (1 - t) * logf(1 - q));
}

/// Its derivative by p.
__device__ float slope(float p, float y, const RowLossOptions& o) {
  switch (o.kind) {
    case RowLoss::kMse:
      return 2 * (p - y);
    case RowLoss::kMae:
      return p > y ? 1.0F : p < y ? -1.0F : 0.0F;
    case RowLoss::kHuber:
      return op::clamp(p - y, -o.delta, o.delta);
    case RowLoss::kBinaryLogits:
      return op::sigmoid(p) - smoothed(y, o);
    case RowLoss::kBinaryProbabilities:
      break;
  }
  const float t = smoothed(y, o);
  return clipped(p) ? 0.0F : (1 - t) / (1 - p) - t / p;
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    row_loss(const float* pred, const float* target, float* l, Rows rows, RowLossOptions o) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const auto at = r * rows.cols;
    const Row<Layout, 2> row(there ? rows.cols : 0, pred + at, target + at);
    const float sum = row.sum([&](auto, float p, float y) { return value(p, y, o); });
    if (leads<Layout>(there)) l[r] = static_cast<float>(o.scale * sum);
  });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    row_loss_backward(const float* pred, const float* target, const float* dl, float* dpred, Rows rows,
                      RowLossOptions o) {
  each_row<Layout, RowOrder::kBackward>(rows.rows, [&](std::int64_t r, bool there) {
    const auto at = r * rows.cols;
    const Row<Layout, 2> row(there ? rows.cols : 0, pred + at, target + at);
    const auto factor = static_cast<float>(o.scale * dl[r]);
    row.store(dpred + at, [&](auto, float p, float y) { return factor * slope(p, y, o); });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_row_loss(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 2, 1);
  const auto rows = rows_of(input(spec, 0));
  require_input(spec, 1, spec.inputs[0].shape);
  require_output(spec, 0, leading(spec.inputs[0].shape));
  return kernel_of(context, stream, [rows, o = parse_row_loss(spec)](const Args& args) {
    with_rows(rows, row_width(rows, args.in(0), args.in(1)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), row_loss<Layout>, args.in(0), args.in(1), args.out(0), rows, o);
    });
  });
}

std::unique_ptr<Kernel> make_row_loss_backward(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 3, 1);
  const auto rows = rows_of(input(spec, 0));
  require_input(spec, 1, spec.inputs[0].shape);
  require_input(spec, 2, leading(spec.inputs[0].shape));
  require_output(spec, 0, spec.inputs[0].shape);
  return kernel_of(context, stream, [rows, o = parse_row_loss(spec)](const Args& args) {
    with_rows(rows, row_width(rows, args.in(0), args.in(1), args.out(0)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), row_loss_backward<Layout>, args.in(0), args.in(1), args.in(2),
             args.out(0), rows, o);
    });
  });
}

}  // namespace tessera::device::cuda
