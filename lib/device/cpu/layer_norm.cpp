#include <cmath>

#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"
#include "device/norm_spec.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/layer_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {

/// Sum and sum of squares of a row, in double.
void moments_row(const float* x, std::int64_t n, double* sums) {
  sums[0] = sum_lanes_f64(n, [x](auto d, std::int64_t i) HWY_ATTR { return load_f64(d, x + i); });
  sums[1] = sum_lanes_f64(n, [x](auto d, std::int64_t i) HWY_ATTR {
    const auto v = load_f64(d, x + i);
    return hn::Mul(v, v);
  });
}

/// Sum of (x - mean)^2, in double.
double deviation_row(const float* x, std::int64_t n, double mean) {
  return sum_lanes_f64(n, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto v = hn::Sub(load_f64(d, x + i), hn::Set(d, mean));
    return hn::Mul(v, v);
  });
}

/// y = (x - mean) rstd gamma + beta; gamma and beta may be null.
void normalise_row(const float* x, const float* gamma, const float* beta, float* y, std::int64_t n, float mean,
                   float rstd) {
  for_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {
    auto v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, rstd));
    if (gamma != nullptr) v = hn::Mul(v, hn::LoadU(d, gamma + i));
    if (beta != nullptr) v = hn::Add(v, hn::LoadU(d, beta + i));
    hn::StoreU(v, d, y + i);
  });
}

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::device::cpu {

HWY_EXPORT(moments_row);
HWY_EXPORT(deviation_row);
HWY_EXPORT(normalise_row);

std::unique_ptr<Kernel> make_layer_norm(const KernelSpec& spec, Context& context) {
  const auto norm = parse_layer_norm(spec, false);
  return kernel_of([norm, epsilon = number(spec.attributes, "epsilon"), threads = context.threads](const Args& args) {
    each_row(threads, norm.rows, norm.cols, [&](std::int64_t r) {
      const auto* x = args.in(0) + r * norm.cols;
      const auto n = static_cast<double>(norm.cols);
      double sums[2];
      HWY_DYNAMIC_DISPATCH(moments_row)(x, norm.cols, sums);
      const auto mean = sums[0] / n;
      const auto variance = HWY_DYNAMIC_DISPATCH(deviation_row)(x, norm.cols, mean) / n;
      const auto rstd = static_cast<float>(1 / std::sqrt(variance + epsilon));
      HWY_DYNAMIC_DISPATCH(normalise_row)
      (x, norm.gamma(args), norm.beta(args), args.out(0) + r * norm.cols, norm.cols, static_cast<float>(mean), rstd);
      args.out(1)[r] = static_cast<float>(mean);
      args.out(2)[r] = rstd;
    });
  });
}

std::unique_ptr<Kernel> make_row_moments(const KernelSpec& spec, Context& context) {
  const auto norm = parse_row_moments(spec);
  return kernel_of([norm, threads = context.threads](const Args& args) {
    each_row(threads, norm.rows, norm.cols, [&](std::int64_t r) {
      HWY_DYNAMIC_DISPATCH(moments_row)(args.in(0) + r * norm.cols, norm.cols, args.out<double>(0) + 2 * r);
    });
  });
}

std::unique_ptr<Kernel> make_layer_norm_finish(const KernelSpec& spec, Context& context) {
  const auto norm = parse_layer_norm(spec, true);
  return kernel_of([norm, epsilon = number(spec.attributes, "epsilon"), threads = context.threads](const Args& args) {
    each_row(threads, norm.rows, norm.cols, [&](std::int64_t r) {
      const auto* sums = args.in<double>(1) + 2 * r;
      const auto mean = sums[0] / norm.all_cols;
      const auto variance = std::max(0.0, sums[1] / norm.all_cols - mean * mean);
      const auto rstd = static_cast<float>(1 / std::sqrt(variance + epsilon));
      HWY_DYNAMIC_DISPATCH(normalise_row)
      (args.in(0) + r * norm.cols, norm.gamma(args), norm.beta(args), args.out(0) + r * norm.cols, norm.cols,
       static_cast<float>(mean), rstd);
      args.out(1)[r] = static_cast<float>(mean);
      args.out(2)[r] = rstd;
    });
  });
}

}  // namespace tessera::device::cpu
#endif  // HWY_ONCE
