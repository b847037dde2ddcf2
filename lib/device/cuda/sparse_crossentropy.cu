#include "device/classes.h"
#include "device/cuda/find.h"
#include "device/cuda/kernels.h"
#include "device/cuda/rows.h"

namespace tessera::device::cuda {
namespace {

constexpr int kThreads = 256;

/// -log p / sum p, as Keras clips it.
__device__ float of_probability(float p, float sum) { return -logf(clip(p / sum)); }

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    sparse_crossentropy(const float* pred, const std::int32_t* labels, float* l, float* lse, Rows rows, Classes classes,
                        bool logits, std::uint64_t* find) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const float* x = pred + r * rows.cols;
    const Row<Layout, 1> row(there ? rows.cols : 0, x);
    const auto [m, sum] = logits ? row.max_and_sum_exp() : MaxSum{0, row.sum([](auto, float p) { return p; })};
    if (!leads<Layout>(there)) return;
    const auto label = labels[r];
    const float log_sum = logf(sum);
    lse[r] = m + log_sum;
    if (!classes.known(label)) report(find, r, label);
    if (classes.ignored.is(label) || !classes.known(label)) {
      l[r] = 0;
    } else {  // m may be far larger than the loss
      l[r] = logits ? static_cast<float>(static_cast<double>(m) - static_cast<double>(x[label]) + log_sum)
                    : of_probability(x[label], sum);
    }
  });
}

/// dl (softmax(x) - 1 at the label), of the classes that are here.
template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    logits_slope(const float* pred, const std::int32_t* labels, const float* lse, const float* dl, float* dpred,
                 Rows rows, Classes classes) {
  each_row<Layout, RowOrder::kBackward>(rows.rows, [&](std::int64_t r, bool there) {
    const auto label = labels[r];
    const bool ignore = classes.ignored.is(label);
    const auto column = classes.column(label);
    const Row<Layout, 1> row(there ? rows.cols : 0, pred + r * rows.cols);
    row.store(dpred + r * rows.cols, [=, log_sum = lse[r], d = dl[r]](auto c, float x) {
      if (ignore) return 0.0F;
      const float slope = d * expf(x - log_sum);
      return c == column ? slope - d : slope;
    });
  });
}

/// l = log(sum) - log(p[label]) where that is not clipped.
template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    probabilities_slope(const float* pred, const std::int32_t* labels, const float* dl, float* dpred, Rows rows,
                        Classes classes) {
  each_row<Layout, RowOrder::kBackward>(rows.rows, [&](std::int64_t r, bool there) {
    const float* p = pred + r * rows.cols;
    const Row<Layout, 1> row(there ? rows.cols : 0, p);
    const float sum = row.sum([](auto, float v) { return v; });
    const auto column = classes.ignored.is(labels[r]) ? -1 : classes.column(labels[r]);
    const bool passes = there && column >= 0 && !clipped(p[column] / sum);
    const float others = passes ? dl[r] / sum : 0.0F;
    row.store(dpred + r * rows.cols,
              [=, d = dl[r]](auto c, float v) { return passes && c == column ? others - d / v : others; });
  });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    row_sum_exp_picked(const float* pred, const float* m, const std::int32_t* labels, float2* sp, Rows rows,
                       Classes classes, std::uint64_t* find) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const float* x = pred + r * rows.cols;
    const Row<Layout, 1> row(there ? rows.cols : 0, x);
    const float sum = row.sum([largest = m[r]](auto, float v) { return expf(v - largest); });
    if (!leads<Layout>(there)) return;
    const auto label = labels[r];
    if (!classes.known(label)) report(find, r, label);
    const auto column = classes.ignored.is(label) ? -1 : classes.column(label);
    sp[r] = make_float2(sum, column >= 0 ? x[column] : 0.0F);
  });
}

__global__ void __launch_bounds__(kThreads)
    sparse_crossentropy_finish(const float* m, const float2* sp, const std::int32_t* labels, float* l, float* lse,
                               std::int64_t rows, IgnoredClass ignored) {
  const auto stride = threads_of_grid();
  for (auto r = thread_of_grid(); r < rows; r += stride) {
    const float2 parts = sp[r];
    const double sum = static_cast<double>(m[r]) + logf(parts.x);
    l[r] = ignored.is(labels[r]) ? 0.0F : static_cast<float>(sum - static_cast<double>(parts.y));
    lse[r] = static_cast<float>(sum);
  }
}

std::uint64_t* check_labels(const KernelSpec& spec, const Classes& classes, Context& context) {
  return context.checks.add([classes, layer = spec.label](std::int64_t row, std::int32_t label) {
    return "'" + layer + "': " + classes.complaint(row, label);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_sparse_crossentropy(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 2, 2);
  const auto rows = rows_of(input(spec, 0));
  require_labels(spec, 1, rows.rows);
  for (std::size_t k = 0; k < 2; ++k)
    require(spec, elements(output(spec, k)) == rows.rows, "outputs have one number a row");
  const Classes classes(spec, spec.inputs[0]);
  require(spec, classes.classes == rows.cols, "its rows are whole");
  const bool logits = flag(spec.attributes, "from_logits");
  return kernel_of(context, stream,
                   [rows, classes, logits, find = check_labels(spec, classes, context)](const Args& args) {
                     with_rows(rows, row_width(rows, args.in(0)), [&]<class Layout>(Layout) {
                       launch(args.stream, Layout::shape(rows.rows), sparse_crossentropy<Layout>, args.in(0),
                              args.in<std::int32_t>(1), args.out(0), args.out(1), rows, classes, logits, find);
                     });
                   });
}

std::unique_ptr<Kernel> make_sparse_crossentropy_backward(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 4, 1);
  const auto rows = rows_of(input(spec, 0));
  require_labels(spec, 1, rows.rows);
  for (std::size_t k = 2; k < 4; ++k)
    require(spec, elements(input(spec, k)) == rows.rows, "lse and dl have one number a row");
  require_output(spec, 0, spec.inputs[0].shape);
  const Classes classes(spec, spec.inputs[0]);
  if (flag(spec.attributes, "from_logits"))
    return kernel_of(context, stream, [rows, classes](const Args& args) {
      with_rows(rows, row_width(rows, args.in(0), args.out(0)), [&]<class Layout>(Layout) {
        launch(args.stream, Layout::shape(rows.rows), logits_slope<Layout>, args.in(0), args.in<std::int32_t>(1),
               args.in(2), args.in(3), args.out(0), rows, classes);
      });
    });
  require(spec, classes.classes == rows.cols, "from probabilities its rows are whole");
  return kernel_of(context, stream, [rows, classes](const Args& args) {
    with_held_rows(rows, row_width(rows, args.in(0), args.out(0)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), probabilities_slope<Layout>, args.in(0), args.in<std::int32_t>(1),
             args.in(3), args.out(0), rows, classes);
    });
  });
}

std::unique_ptr<Kernel> make_row_sum_exp_picked(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 3, 1);
  const auto rows = rows_of(input(spec, 0));
  require(spec, elements(input(spec, 1)) == rows.rows, "m has one number a row");
  require_labels(spec, 2, rows.rows);
  require(spec, elements(output(spec, 0)) == 2 * rows.rows, "the output has two numbers a row");
  const Classes classes(spec, spec.inputs[0]);
  return kernel_of(context, stream, [rows, classes, find = check_labels(spec, classes, context)](const Args& args) {
    with_rows(rows, row_width(rows, args.in(0)), [&]<class Layout>(Layout) {
      launch(args.stream, Layout::shape(rows.rows), row_sum_exp_picked<Layout>, args.in(0), args.in(1),
             args.in<std::int32_t>(2), args.out<float2>(0), rows, classes, find);
    });
  });
}

std::unique_ptr<Kernel> make_sparse_crossentropy_finish(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 3, 2);
  const auto rows = elements(input(spec, 0));
  require(spec, elements(input(spec, 1)) == 2 * rows, "sp has two numbers a row");
  require_labels(spec, 2, rows);
  for (std::size_t k = 0; k < 2; ++k) require(spec, elements(output(spec, k)) == rows, "outputs have one number a row");
  return kernel_of(context, stream, [rows, ignored = IgnoredClass(spec)](const Args& args) {
    launch(args.stream, {blocks_for(rows, kThreads), kThreads}, sparse_crossentropy_finish, args.in(0),
           args.in<float2>(1), args.in<std::int32_t>(2), args.out(0), args.out(1), rows, ignored);
  });
}

}  // namespace tessera::device::cuda
