#include <limits>

#include "device/cpu/kernels.h"
#include "device/cpu/reduce.h"
#include "device/weighting.h"

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

/// 1 / denominator; 0 where nothing counts.
double factor(const Weighting& w, const Args& args) {
  using Denominator = Weighting::Denominator;
  const double denominator = w.kind == Denominator::kRows    ? static_cast<double>(args.params.real_rows) * w.positions
                             : w.kind == Denominator::kInput ? *args.in<double>(w.denominator_at)
                                                             : 1.0;
  return denominator == 0 ? 0.0 : 1 / denominator;
}

}  // namespace

std::int64_t weighted_sum_scratch(const KernelSpec& spec) {
  const Weighting w(spec, spec.inputs.at(0));
  const auto all = w.all();
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
    *args.out(0) = static_cast<float>(before + sum * factor(w, args));
  });
}

std::unique_ptr<Kernel> make_weighted_sum_backward(const KernelSpec& spec, Context& context) {
  output(spec, 0);
  const Weighting w(spec, spec.outputs[0]);
  require(spec, elements(input(spec, 0)) == 1, "the cotangent is a scalar");
  return kernel_of([w, threads = context.threads](const Args& args) {
    const auto real = w.mask.real(args.params) * w.row, all = w.all();
    const auto slope = *args.in(0) * factor(w, args);
    const auto* weights = w.weights ? args.in(w.weights_at) : nullptr;
    auto* dl = args.out(0);
    parallel_for(threads, all, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        const double weight = i >= real ? 0.0 : weights == nullptr ? 1.0 : static_cast<double>(weights[i / w.each]);
        dl[i] = i >= real ? 0.0F : static_cast<float>(slope * weight);
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
