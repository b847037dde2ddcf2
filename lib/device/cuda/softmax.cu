#include "device/cuda/kernels.h"
#include "device/cuda/rows.h"

namespace tessera::device::cuda {
namespace {

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads) softmax(const float* x, float* y, Rows rows, bool log) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const Row<Layout, 1> row(there ? rows.cols : 0, x + r * rows.cols);
    const auto [m, sum] = row.max_and_sum_exp();
    if (log) {
      row.store(y + r * rows.cols, [m = m, log_sum = logf(sum)](auto, float v) { return v - m - log_sum; });
    } else {
      row.store(y + r * rows.cols, [m = m, scale = 1 / sum](auto, float v) { return expf(v - m) * scale; });
    }
  });
}

/// y (dy - dot), of log_softmax dy - exp(y) dot.
__device__ float slope(float y, float dy, float dot, bool log) { return log ? dy - expf(y) * dot : y * (dy - dot); }

template <class Layout>
__device__ float dot_of(const Row<Layout, 2>& row, bool log) {
  return log ? row.sum([](auto, float, float dy) { return dy; })
             : row.sum([](auto, float y, float dy) { return y * dy; });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    softmax_backward(const float* y, const float* dy, float* dx, Rows rows, bool log) {
  each_row<Layout, RowOrder::kBackward>(rows.rows, [&](std::int64_t r, bool there) {
    const auto at = r * rows.cols;
    const Row<Layout, 2> row(there ? rows.cols : 0, y + at, dy + at);
    const float dot = dot_of(row, log);
    row.store(dx + at, [=](auto, float v, float dv) { return slope(v, dv, dot, log); });
  });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads) row_max(const float* x, float* m, Rows rows) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const float largest = Row<Layout, 1>(there ? rows.cols : 0, x + r * rows.cols).max();
    if (leads<Layout>(there)) m[r] = largest;
  });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads) row_sum_exp(const float* x, const float* m, float* s, Rows rows) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const Row<Layout, 1> row(there ? rows.cols : 0, x + r * rows.cols);
    const float sum = row.sum([largest = m[r]](auto, float v) { return expf(v - largest); });
    if (leads<Layout>(there)) s[r] = sum;
  });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    softmax_finish(const float* x, const float* m, const float* s, float* y, Rows rows, bool log) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const Row<Layout, 1> row(there ? rows.cols : 0, x + r * rows.cols);
    const float largest = m[r], last = log ? logf(s[r]) : 1 / s[r];
    row.store(y + r * rows.cols, [=](auto, float v) { return log ? v - largest - last : expf(v - largest) * last; });
  });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    row_dot(const float* y, const float* dy, float* d, Rows rows, bool log) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const auto at = r * rows.cols;
    const float dot = dot_of(Row<Layout, 2>(there ? rows.cols : 0, y + at, dy + at), log);
    if (leads<Layout>(there)) d[r] = dot;
  });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    softmax_backward_finish(const float* y, const float* dy, const float* d, float* dx, Rows rows, bool log) {
  each_row<Layout, RowOrder::kBackward>(rows.rows, [&](std::int64_t r, bool there) {
    const auto at = r * rows.cols;
    const Row<Layout, 2> row(there ? rows.cols : 0, y + at, dy + at);
    row.store(dx + at, [dot = d[r], log](auto, float v, float dv) { return slope(v, dv, dot, log); });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_softmax(const KernelSpec& spec, Context& context, Stream stream) {
  const auto rows = require_rows(spec, 1, 0, true);
  return kernel_of(context, stream, [rows, log = flag(spec.attributes, "log")](const Args& args) {
    with_held_rows(rows, row_width(rows, args.in(0), args.out(0)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), softmax<Layout>, args.in(0), args.out(0), rows, log);
    });
  });
}

std::unique_ptr<Kernel> make_softmax_backward(const KernelSpec& spec, Context& context, Stream stream) {
  const auto rows = require_rows(spec, 2, 0, true);
  return kernel_of(context, stream, [rows, log = flag(spec.attributes, "log")](const Args& args) {
    with_held_rows(rows, row_width(rows, args.in(0), args.in(1), args.out(0)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), softmax_backward<Layout>, args.in(0), args.in(1), args.out(0), rows,
             log);
    });
  });
}

std::unique_ptr<Kernel> make_row_max(const KernelSpec& spec, Context& context, Stream stream) {
  const auto rows = require_rows(spec, 1, 0, false);
  return kernel_of(context, stream, [rows](const Args& args) {
    with_rows(rows, row_width(rows, args.in(0)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), row_max<Layout>, args.in(0), args.out(0), rows);
    });
  });
}

std::unique_ptr<Kernel> make_row_sum_exp(const KernelSpec& spec, Context& context, Stream stream) {
  const auto rows = require_rows(spec, 1, 1, false);
  return kernel_of(context, stream, [rows](const Args& args) {
    with_rows(rows, row_width(rows, args.in(0)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), row_sum_exp<Layout>, args.in(0), args.in(1), args.out(0), rows);
    });
  });
}

std::unique_ptr<Kernel> make_softmax_finish(const KernelSpec& spec, Context& context, Stream stream) {
  const auto rows = require_rows(spec, 1, 2, true);
  return kernel_of(context, stream, [rows, log = flag(spec.attributes, "log")](const Args& args) {
    with_rows(rows, row_width(rows, args.in(0), args.out(0)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), softmax_finish<Layout>, args.in(0), args.in(1), args.in(2),
             args.out(0), rows, log);
    });
  });
}

std::unique_ptr<Kernel> make_row_dot(const KernelSpec& spec, Context& context, Stream stream) {
  const auto rows = require_rows(spec, 2, 0, false);
  return kernel_of(context, stream, [rows, log = flag(spec.attributes, "log")](const Args& args) {
    with_rows(rows, row_width(rows, args.in(0), args.in(1)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), row_dot<Layout>, args.in(0), args.in(1), args.out(0), rows, log);
    });
  });
}

std::unique_ptr<Kernel> make_softmax_backward_finish(const KernelSpec& spec, Context& context, Stream stream) {
  const auto rows = require_rows(spec, 2, 1, true);
  return kernel_of(context, stream, [rows, log = flag(spec.attributes, "log")](const Args& args) {
    with_rows(rows, row_width(rows, args.in(0), args.in(1), args.out(0)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), softmax_backward_finish<Layout>, args.in(0), args.in(1), args.in(2),
             args.out(0), rows, log);
    });
  });
}

}  // namespace tessera::device::cuda
