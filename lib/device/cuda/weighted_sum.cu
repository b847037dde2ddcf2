#include "device/classes.h"
#include "device/cuda/flat.h"
#include "device/cuda/kernels.h"
#include "device/cuda/real_rows.h"
#include "device/cuda/sums.h"
#include "device/weighting.h"

namespace tessera::device::cuda {
namespace {

/// What is in the device's memory when a weighted sum runs.
struct Weights {
  Weighting w;
  const float* weights;       // null: all 1
  const double* denominator;  // of Denominator::kInput
  const StepParams* params;
  std::int64_t micro_batch;

  Weights(const Weighting& weighting, const Args& args)
      : w(weighting),
        weights(w.weights ? args.in(w.weights_at) : nullptr),
        denominator(w.kind == Weighting::Denominator::kInput ? args.in<double>(w.denominator_at) : nullptr),
        params(args.params),
        micro_batch(args.micro_batch) {}

  /// Elements of l that are real.
  __device__ std::int64_t real() const { return real_rows(w.mask, params, micro_batch) * w.row; }

  __device__ double weight(std::int64_t i) const {
    return weights == nullptr ? 1.0 : static_cast<double>(weights[w.each == 1 ? i : i / w.each]);
  }

  /// 1 / denominator; 0 where nothing counts.
  __device__ double factor() const {
    const double d = w.kind == Weighting::Denominator::kRows    ? static_cast<double>(params->real_rows) * w.positions
                     : w.kind == Weighting::Denominator::kInput ? *denominator
                                                                : 1.0;
    return d == 0 ? 0.0 : 1 / d;
  }
};

struct WeightedLosses {
  using Sum = double;
  static constexpr int kWidth = 1;
  Weights w;
  const float* l;

  __device__ std::int64_t count() const { return w.real(); }
  __device__ double at(std::int64_t i) const { return l[i] * w.weight(i); }
};

struct StoreWeighted {
  Weights w;
  float* y;
  bool add;

  __device__ void operator()(double sum) const {
    const double before = add ? *y : 0.0;
    *y = static_cast<float>(before + sum * w.factor());
  }
};

__global__ void __launch_bounds__(kFlatThreads)
    weighted_slope(const __grid_constant__ Weights w, const float* d, float* dl, std::int64_t n) {
  const double slope = once_a_block([&] { return *d * w.factor(); });
  const auto real = w.real(), stride = threads_of_grid();
  for (auto i = thread_of_grid(); i < n; i += stride) dl[i] = i < real ? static_cast<float>(slope * w.weight(i)) : 0.0F;
}

/// The real rows of a tensor, element by element.
struct RealElements {
  RowMask mask;
  std::int64_t row;  // elements of one

  RealElements(const KernelSpec& spec, const TensorSpec& tensor)
      : mask(spec, tensor), row(elements(tensor.shape) / std::max<std::int64_t>(mask.rows, 1)) {}

  std::int64_t all() const { return mask.rows * row; }
};

/// Sum of the weights of real rows whose labels count; weights or labels may be null.
struct Counted {
  using Sum = double;
  static constexpr int kWidth = 1;
  RealElements real;
  const StepParams* params;
  std::int64_t micro_batch;
  const float* weights;
  const std::int32_t* labels;
  IgnoredClass ignored;

  __device__ std::int64_t count() const { return real_rows(real.mask, params, micro_batch) * real.row; }
  __device__ double at(std::int64_t i) const {
    if (labels != nullptr && ignored.is(labels[i])) return 0.0;
    return weights == nullptr ? 1.0 : static_cast<double>(weights[i]);
  }
};

struct StoreCount {
  double* y;

  __device__ void operator()(double sum) const { *y = sum; }
};

}  // namespace

std::unique_ptr<Kernel> make_weighted_sum(const KernelSpec& spec, Context& context, Stream stream) {
  input(spec, 0);
  const Weighting w(spec, spec.inputs[0]);
  require(spec, elements(output(spec, 0)) == 1, "the result is a scalar");
  const bool accumulate = flag(spec.attributes, "accumulate");
  const auto cut = cut_sum(w.all());
  auto* memory = context.scratch.take<double>(sum_scratch(cut, sizeof(double)));
  return kernel_of(context, stream, [=](const Args& args) {
    const Weights weights(w, args);
    launch_sum(args.stream, cut, memory, WeightedLosses{weights, args.in(0)},
               StoreWeighted{weights, args.out(0), accumulate && args.micro_batch > 0});
  });
}

std::unique_ptr<Kernel> make_weighted_sum_backward(const KernelSpec& spec, Context& context, Stream stream) {
  output(spec, 0);
  const Weighting w(spec, spec.outputs[0]);
  require(spec, elements(input(spec, 0)) == 1, "the cotangent is a scalar");
  return kernel_of(context, stream, [w](const Args& args) {
    launch(args.stream, flat_shape(w.all()), weighted_slope, Weights(w, args), args.in(0), args.out(0), w.all());
  });
}

namespace {

/// `weights_at`, `labels_at`: the inputs, or -1.
std::unique_ptr<Kernel> count_kernel(const KernelSpec& spec, Context& context, Stream stream, int weights_at,
                                     int labels_at) {
  require_output(spec, 0, {}, DType::kF64);
  const RealElements real(spec, spec.inputs[0]);
  const auto cut = cut_sum(real.all());
  auto* memory = context.scratch.take<double>(sum_scratch(cut, sizeof(double)));
  return kernel_of(context, stream, [=, ignored = IgnoredClass(spec)](const Args& args) {
    const Counted counted{real,
                          args.params,
                          args.micro_batch,
                          weights_at < 0 ? nullptr : args.in(weights_at),
                          labels_at < 0 ? nullptr : args.in<std::int32_t>(labels_at),
                          ignored};
    launch_sum(args.stream, cut, memory, counted, StoreCount{args.out<double>(0)});
  });
}

}  // namespace

std::unique_ptr<Kernel> make_count_valid(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 1, 1);
  input(spec, 0, DType::kI32);
  return count_kernel(spec, context, stream, -1, 0);
}

std::unique_ptr<Kernel> make_sum_weights(const KernelSpec& spec, Context& context, Stream stream) {
  const bool labels = spec.attributes.has("ignore_class");
  require_counts(spec, labels ? 2 : 1, 1);
  const auto& shape = input(spec, 0);
  if (labels) require_input(spec, 1, shape, DType::kI32);
  return count_kernel(spec, context, stream, 0, labels ? 1 : -1);
}

}  // namespace tessera::device::cuda
