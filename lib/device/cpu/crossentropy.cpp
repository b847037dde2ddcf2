#include "device/classes.h"
#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/crossentropy.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {
namespace {

/// Targets after smoothing: y (1 - s) + s / classes.
struct Targets {
  const float* y;
  float keep, add;

  Targets(const float* target, std::int64_t n, float smoothing)
      : y(target), keep(1 - smoothing), add(smoothing / static_cast<float>(n)) {}

  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    return hn::MulAdd(hn::LoadU(d, y + i), hn::Set(d, keep), hn::Set(d, add));
  }
};

/// log softmax(x) = (x - m) - log_sum.
struct LogSoftmax {
  const float* x;
  float m, log_sum;

  HWY_INLINE LogSoftmax(const float* logits, std::int64_t n) : x(logits), m(max_of(logits, n)) {
    const auto sum = sum_lanes(n, [this](auto d, std::int64_t i)
                                      HWY_ATTR { return exponential(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, m))); });
    log_sum = static_cast<float>(std::log(sum));
  }

  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
    return hn::Sub(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, m)), hn::Set(d, log_sum));
  }
};

HWY_INLINE double sum_of(const float* x, std::int64_t n) {
  return sum_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
}

/// p clipped; NaN stays.
template <class D, class V>
HWY_INLINE V clip_lanes(D d, V p) {
  return hn::Min(hn::Set(d, kMostProbability), hn::Max(hn::Set(d, kLeastProbability), p));
}

/// -y / p where p is not clipped, else 0: the derivative of -y log(clip(p)).
template <class D, class V>
HWY_INLINE V log_slope(D d, V y, V p) {
  const auto inside = hn::And(hn::Ge(p, hn::Set(d, kLeastProbability)), hn::Le(p, hn::Set(d, kMostProbability)));
  return hn::IfThenElseZero(inside, hn::Neg(hn::Div(y, p)));
}

}  // namespace

/// -sum y log softmax(x).
float categorical_from_logits(const float* x, const float* target, std::int64_t n, float smoothing) {
  const LogSoftmax log_softmax(x, n);
  const Targets y(target, n, smoothing);
  return static_cast<float>(
      -sum_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR { return hn::Mul(y.at(d, i), log_softmax.at(d, i)); }));
}

/// dl (softmax(x) sum y - y).
void categorical_from_logits_slope(const float* x, const float* target, float* dx, std::int64_t n, float smoothing,
                                   float dl) {
  const LogSoftmax log_softmax(x, n);
  const Targets y(target, n, smoothing);
  const auto total = static_cast<float>(sum_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR { return y.at(d, i); }));
  for_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto p = exponential(d, log_softmax.at(d, i));
    hn::StoreU(hn::Mul(hn::Set(d, dl), hn::MulSub(p, hn::Set(d, total), y.at(d, i))), d, dx + i);
  });
}

/// -sum y log clip(p / sum p).
float categorical_from_probabilities(const float* p, const float* target, std::int64_t n, float smoothing) {
  const auto scale = static_cast<float>(1 / sum_of(p, n));
  const Targets y(target, n, smoothing);
  return static_cast<float>(-sum_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto q = hn::Mul(hn::LoadU(d, p + i), hn::Set(d, scale));
    return hn::IfThenElse(hn::IsNaN(q), q, hn::Mul(y.at(d, i), hn::Log(d, clip_lanes(d, q))));
  }));
}

/// With q = p / sum p and g = d l / d q: dl (g - sum g q) / sum p.
void categorical_from_probabilities_slope(const float* p, const float* target, float* dp, std::int64_t n,
                                          float smoothing, float dl) {
  const auto scale = static_cast<float>(1 / sum_of(p, n));
  const Targets y(target, n, smoothing);
  const auto slope = [=](auto d, std::int64_t i)
                         HWY_ATTR { return log_slope(d, y.at(d, i), hn::Mul(hn::LoadU(d, p + i), hn::Set(d, scale))); };
  const auto through_sum = static_cast<float>(sum_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {
    return hn::Mul(slope(d, i), hn::Mul(hn::LoadU(d, p + i), hn::Set(d, scale)));
  }));
  for_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::Sub(slope(d, i), hn::Set(d, through_sum)), hn::Set(d, dl * scale)), d, dp + i);
  });
}

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::device::cpu {

HWY_EXPORT(categorical_from_logits);
HWY_EXPORT(categorical_from_logits_slope);
HWY_EXPORT(categorical_from_probabilities);
HWY_EXPORT(categorical_from_probabilities_slope);

std::unique_ptr<Kernel> make_categorical_crossentropy(const KernelSpec& spec, Context& context) {
  require_counts(spec, 2, 1);
  const auto [rows, cols] = rows_of(input(spec, 0));
  require_input(spec, 1, spec.inputs[0].shape);
  require_output(spec, 0, leading(spec.inputs[0].shape));
  const auto& a = spec.attributes;
  return kernel_of([rows = rows, cols = cols, logits = flag(a, "from_logits"), threads = context.threads,
                    smoothing = static_cast<float>(number_or(a, "label_smoothing", 0))](const Args& args) {
    const auto row =
        logits ? HWY_DYNAMIC_DISPATCH(categorical_from_logits) : HWY_DYNAMIC_DISPATCH(categorical_from_probabilities);
    each_row(threads, rows, cols, [&](std::int64_t r) {
      args.out(0)[r] = row(args.in(0) + r * cols, args.in(1) + r * cols, cols, smoothing);
    });
  });
}

std::unique_ptr<Kernel> make_categorical_crossentropy_backward(const KernelSpec& spec, Context& context) {
  require_counts(spec, 3, 1);
  const auto [rows, cols] = rows_of(input(spec, 0));
  require_input(spec, 1, spec.inputs[0].shape);
  require_input(spec, 2, leading(spec.inputs[0].shape));
  require_output(spec, 0, spec.inputs[0].shape);
  const auto& a = spec.attributes;
  return kernel_of([rows = rows, cols = cols, logits = flag(a, "from_logits"), threads = context.threads,
                    smoothing = static_cast<float>(number_or(a, "label_smoothing", 0))](const Args& args) {
    const auto row = logits ? HWY_DYNAMIC_DISPATCH(categorical_from_logits_slope)
                            : HWY_DYNAMIC_DISPATCH(categorical_from_probabilities_slope);
    each_row(threads, rows, cols, [&](std::int64_t r) {
      row(args.in(0) + r * cols, args.in(1) + r * cols, args.out(0) + r * cols, cols, smoothing, args.in(2)[r]);
    });
  });
}

}  // namespace tessera::device::cpu
#endif  // HWY_ONCE
