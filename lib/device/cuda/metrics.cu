#include "device/cuda/kernels.h"
#include "device/cuda/real_rows.h"
#include "device/cuda/rows.h"
#include "device/cuda/sums.h"

namespace tessera::device::cuda {
namespace {

/// Column of the largest number, the first of several; x: the row's begin. A NaN there wins, others lose.
template <class Layout>
__device__ std::int32_t arg_max(const Row<Layout, 1>& row, const float* x) {
  Place best{x[0], 0};
  row.each([&](auto c, float v) {
    if (v > best.value) best = {v, static_cast<std::int32_t>(c)};
  });
  return team_reduce<Layout::kLanes>(best,
                                     [](const Place& a, const Place& b) {
                                       return a.value < b.value || (a.value == b.value && b.column < a.column) ? b : a;
                                     })
      .column;
}

template <class Layout, class Target>
__global__ void __launch_bounds__(Layout::kThreads)
    match_sparse(const float* pred, const Target* target, float* values, Rows rows) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const float* p = pred + r * rows.cols;
    const auto column = arg_max(Row<Layout, 1>(there ? rows.cols : 0, p), p);
    if (leads<Layout>(there)) values[r] = static_cast<double>(column) == static_cast<double>(target[r]) ? 1.0F : 0.0F;
  });
}

template <class Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    match_categorical(const float* pred, const float* target, float* values, Rows rows) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const float *p = pred + r * rows.cols, *t = target + r * rows.cols;
    const auto cols = there ? rows.cols : 0;
    const auto predicted = arg_max(Row<Layout, 1>(cols, p), p), right = arg_max(Row<Layout, 1>(cols, t), t);
    if (leads<Layout>(there)) values[r] = predicted == right ? 1.0F : 0.0F;
  });
}

template <class Layout, class Target>
__global__ void __launch_bounds__(Layout::kThreads)
    match_binary(const float* pred, const Target* target, float* values, Rows rows, float threshold) {
  each_row<Layout>(rows.rows, [&](std::int64_t r, bool there) {
    const Target* t = target + r * rows.cols;
    std::int64_t right = 0;
    Row<Layout, 1>(there ? rows.cols : 0, pred + r * rows.cols).each([&](auto c, float p) {
      if (t[c] == static_cast<Target>(p > threshold ? 1 : 0)) ++right;
    });
    right = team_sum<Layout::kLanes>(right);
    if (leads<Layout>(there))
      values[r] = static_cast<float>(static_cast<double>(right) / static_cast<double>(rows.cols));
  });
}

enum class Match : std::uint8_t { kBinary, kSparse, kCategorical };

template <class Target>
std::unique_ptr<Kernel> match_kernel(Context& context, Stream stream, Match kind, const Rows& rows, float threshold) {
  return kernel_of(context, stream, [=](const Args& args) {
    const auto* target = args.in<Target>(1);
    const int width = kind == Match::kCategorical ? row_width(rows, args.in(0), target) : row_width(rows, args.in(0));
    with_rows(rows, width, [&]<class Layout>(Layout) {
      const auto shape = Layout::shape(rows.rows);
      if (kind == Match::kSparse) {
        launch(args.stream, shape, match_sparse<Layout, Target>, args.in(0), target, args.out(0), rows);
      } else if (kind == Match::kBinary) {
        launch(args.stream, shape, match_binary<Layout, Target>, args.in(0), target, args.out(0), rows, threshold);
      } else {
        launch(args.stream, shape, match_categorical<Layout>, args.in(0), args.in(1), args.out(0), rows);
      }
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_match_rows(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 2, 1);
  const auto rows = rows_of(input(spec, 0));
  require(spec, elements(output(spec, 0)) == rows.rows, "values have one number a row");
  const auto& name = spec.attributes.get<std::string>("kind");
  require(spec, name == "binary" || name == "sparse" || name == "categorical", "there is no such kind");
  const auto kind = name == "binary" ? Match::kBinary : name == "sparse" ? Match::kSparse : Match::kCategorical;
  const bool integers = spec.inputs[1].dtype == DType::kI32;
  require(spec, integers || spec.inputs[1].dtype == DType::kF32, "targets are f32 or i32");
  require(spec, elements(spec.inputs[1].shape) == (kind == Match::kSparse ? rows.rows : rows.rows * rows.cols),
          "the targets do not fit");
  require(spec, kind != Match::kCategorical || !integers, "categorical targets are f32");
  require(spec, rows.cols > 0 || rows.rows == 0, "a row without columns has no prediction");
  require(spec, rows.cols <= INT32_MAX, "a row has too many columns");
  const auto threshold = static_cast<float>(number_or(spec.attributes, "threshold", 0.5));
  return integers ? match_kernel<std::int32_t>(context, stream, kind, rows, threshold)
                  : match_kernel<float>(context, stream, kind, rows, threshold);
}

namespace {

/// w v and w of the real elements.
struct Values {
  using Sum = Two;
  static constexpr int kWidth = 1;
  const float *v, *w;  // w null: all 1
  RowMask mask;
  std::int64_t row;
  const StepParams* params;
  std::int64_t micro_batch;

  __device__ std::int64_t count() const { return real_rows(mask, params, micro_batch) * row; }
  __device__ Two at(std::int64_t i) const {
    const double weight = w == nullptr ? 1.0 : static_cast<double>(w[i]);
    return {weight * static_cast<double>(v[i]), weight};
  }
};

struct AddToState {
  double* state;

  __device__ void operator()(const Two& sums) const {
    state[0] += sums.a;
    state[1] += sums.b;
  }
};

}  // namespace

std::unique_ptr<Kernel> make_metric_accumulate(const KernelSpec& spec, Context& context, Stream stream) {
  const bool weights = spec.inputs.size() == 2;
  require_counts(spec, weights ? 2 : 1, 1);
  const auto& shape = input(spec, 0);
  if (weights) require_input(spec, 1, shape);
  require_output(spec, 0, {2}, DType::kF64);
  const RowMask mask(spec, spec.inputs[0]);
  const auto row = mask.rows == 0 ? 0 : elements(shape) / mask.rows;
  const auto cut = cut_sum(elements(shape));
  auto* memory = context.scratch.take<Two>(sum_scratch(cut, sizeof(Two)));
  return kernel_of(context, stream, [=](const Args& args) {
    const Values values{args.in(0), weights ? args.in(1) : nullptr, mask, row, args.params, args.micro_batch};
    launch_sum(args.stream, cut, memory, values, AddToState{args.out<double>(0)});
  });
}

}  // namespace tessera::device::cuda
