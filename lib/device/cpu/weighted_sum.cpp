#include <limits>

#include "device/cpu/kernels.h"
#include "device/cpu/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/weighted_sum.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {

double plain_sum(const float* x, std::int64_t n) {
  return sum_lanes(n, [x](auto d, std::int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
}

double product_sum(const float* x, const float* y, std::int64_t n) {
  return sum_lanes(n,
                   [=](auto d, std::int64_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, y + i)); });
}

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::device::cpu {

HWY_EXPORT(plain_sum);
HWY_EXPORT(product_sum);

namespace {

/// What both directions share: losses l (b...) of which the first rows are real, one weight for every `each` of them.
struct Weighting {
  RowMask mask;
  std::int64_t row = 1;   // elements of l in a row
  std::int64_t each = 1;  // elements of l that share a weight
  bool weights = false;
  enum class Denominator : std::uint8_t { kRows, kInput, kOne } kind = Denominator::kOne;
  double positions = 1;  // global elements a row
  int weights_at = 1, denominator_at = 1;

  Weighting(const KernelSpec& spec, const TensorSpec& losses) : mask(spec, losses) {
    const auto& a = spec.attributes;
    for (std::size_t d = 1; d < losses.shape.size(); ++d) {
      row *= losses.shape[d];
      positions *= static_cast<double>(global_of(losses)[d]);
    }
    weights = flag(a, "weights");
    const auto name = a.get_or<std::string>("denominator", "one");
    require(spec, name == "rows" || name == "input" || name == "one", "there is no such denominator");
    kind = name == "rows" ? Denominator::kRows : name == "input" ? Denominator::kInput : Denominator::kOne;
    denominator_at = weights ? 2 : 1;
    require_counts(spec, denominator_at + (kind == Denominator::kInput ? 1 : 0), 1);
    if (kind == Denominator::kInput)
      require(spec, elements(input(spec, denominator_at, DType::kF64)) == 1, "the denominator is a scalar");
    if (!weights) return;
    const auto& w = input(spec, weights_at);
    require(spec,
            w.size() >= 1 && w.size() <= losses.shape.size() && std::equal(w.begin(), w.end(), losses.shape.begin()),
            "the weights have the losses' first dimensions");
    for (auto d = w.size(); d < losses.shape.size(); ++d) each *= losses.shape[d];
  }

  /// 1 / denominator; 0 where nothing counts.
  double factor(const Args& args) const {
    const double denominator = kind == Denominator::kRows    ? static_cast<double>(args.params.real_rows) * positions
                               : kind == Denominator::kInput ? *args.in<double>(denominator_at)
                                                             : 1.0;
    return denominator == 0 ? 0.0 : 1 / denominator;
  }
};

}  // namespace

std::int64_t weighted_sum_scratch(const KernelSpec& spec) {
  const Weighting w(spec, spec.inputs.at(0));
  const auto all = w.mask.rows * w.row;
  return std::max(partials_bytes(all), partials_bytes(all / std::max<std::int64_t>(w.each, 1), w.each));
}

std::unique_ptr<Kernel> make_weighted_sum(const KernelSpec& spec, Context& context) {
  input(spec, 0);
  const Weighting w(spec, spec.inputs[0]);
  require(spec, elements(output(spec, 0)) == 1, "the result is a scalar");
  auto* partials = context.scratch.take<double>(weighted_sum_scratch(spec));
  const bool accumulate = flag(spec.attributes, "accumulate");
  return kernel_of([w, accumulate, partials, threads = context.threads](const Args& args) {
    const auto* l = args.in(0);
    const auto real = w.mask.real(args.params) * w.row;
    double sum = 0;
    if (!w.weights) {
      sum = ordered_sum(threads, partials, real, 1, [&](std::int64_t begin, std::int64_t end) {
        return HWY_DYNAMIC_DISPATCH(plain_sum)(l + begin, end - begin);
      });
    } else if (w.each == 1) {
      const auto* weights = args.in(w.weights_at);
      sum = ordered_sum(threads, partials, real, 1, [&](std::int64_t begin, std::int64_t end) {
        return HWY_DYNAMIC_DISPATCH(product_sum)(l + begin, weights + begin, end - begin);
      });
    } else if (w.each > 0) {
      const auto* weights = args.in(w.weights_at);
      sum = ordered_sum(threads, partials, real / w.each, w.each, [&](std::int64_t begin, std::int64_t end) {
        double part = 0;
        for (auto k = begin; k < end; ++k)
          part += static_cast<double>(weights[k]) * HWY_DYNAMIC_DISPATCH(plain_sum)(l + k * w.each, w.each);
        return part;
      });
    }
    const auto before = accumulate && args.params.micro_batch > 0 ? static_cast<double>(*args.out(0)) : 0.0;
    *args.out(0) = static_cast<float>(before + sum * w.factor(args));
  });
}

std::unique_ptr<Kernel> make_weighted_sum_backward(const KernelSpec& spec, Context& context) {
  output(spec, 0);
  const Weighting w(spec, spec.outputs[0]);
  require(spec, elements(input(spec, 0)) == 1, "the cotangent is a scalar");
  return kernel_of([w, threads = context.threads](const Args& args) {
    const auto real = w.mask.real(args.params) * w.row, all = w.mask.rows * w.row;
    const auto factor = *args.in(0) * w.factor(args);
    const auto* weights = w.weights ? args.in(w.weights_at) : nullptr;
    auto* dl = args.out(0);
    parallel_for(threads, all, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        const double weight = i >= real ? 0.0 : weights == nullptr ? 1.0 : static_cast<double>(weights[i / w.each]);
        dl[i] = i >= real ? 0.0F : static_cast<float>(factor * weight);
      }
    });
  });
}

std::unique_ptr<Kernel> make_count_valid(const KernelSpec& spec, Context& /*context*/) {
  require_counts(spec, 1, 1);
  input(spec, 0, DType::kI32);
  require_output(spec, 0, {}, DType::kF64);
  const RowMask mask(spec, spec.inputs[0]);
  const auto row = elements(spec.inputs[0].shape) / std::max<std::int64_t>(mask.rows, 1);
  const bool ignores = spec.attributes.has("ignore_class");
  const auto ignored = ignores ? spec.attributes.get<std::int64_t>("ignore_class") : 0;
  return kernel_of([=](const Args& args) {
    const auto* labels = args.in<std::int32_t>(0);
    const auto real = mask.real(args.params) * row;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < real; ++i) count += !ignores || labels[i] != ignored ? 1 : 0;
    *args.out<double>(0) = static_cast<double>(count);
  });
}

std::unique_ptr<Kernel> make_sum_weights(const KernelSpec& spec, Context& /*context*/) {
  require_counts(spec, spec.attributes.has("ignore_class") ? 2 : 1, 1);
  input(spec, 0);
  require_output(spec, 0, {}, DType::kF64);
  const RowMask mask(spec, spec.inputs[0]);
  const auto row = elements(spec.inputs[0].shape) / std::max<std::int64_t>(mask.rows, 1);
  if (!spec.attributes.has("ignore_class"))
    return kernel_of([=](const Args& args) {
      *args.out<double>(0) = HWY_DYNAMIC_DISPATCH(plain_sum)(args.in(0), mask.real(args.params) * row);
    });
  input(spec, 1, DType::kI32);
  require(spec, spec.inputs[1].shape == spec.inputs[0].shape, "a label for each weight");
  const auto ignored = spec.attributes.get<std::int64_t>("ignore_class");
  return kernel_of([=](const Args& args) {
    const auto* weights = args.in(0);
    const auto* labels = args.in<std::int32_t>(1);
    const auto real = mask.real(args.params) * row;
    double sum = 0;
    for (std::int64_t i = 0; i < real; ++i) sum += labels[i] != ignored ? static_cast<double>(weights[i]) : 0.0;
    *args.out<double>(0) = sum;
  });
}

}  // namespace tessera::device::cpu
#endif  // HWY_ONCE
