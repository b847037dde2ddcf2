// Loops over vectors and the functions that they need, compiled once for each instruction set. An element's value does
// not depend on where in a vector it lies: tails run the same operations on vectors of one lane.

#if defined(TESSERA_DEVICE_CPU_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_DEVICE_CPU_VECTOR_INL_H_
#undef TESSERA_DEVICE_CPU_VECTOR_INL_H_
#else
#define TESSERA_DEVICE_CPU_VECTOR_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using OneLane = hn::CappedTag<float, 1>;

/// f(d, i) for whole vectors at i, then for single elements.
template <class F>
HWY_INLINE void for_lanes(std::int64_t n, const F& f) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(d, i);
  for (; i < n; ++i) f(OneLane(), i);
}

inline constexpr std::int64_t kSumBlock = 4096;

/// Sum of f(d, i) over n elements: in float within blocks, in double across them.
template <class F>
HWY_INLINE double sum_lanes(std::int64_t n, const F& f) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kSumBlock) {
    const auto end = std::min(n, begin + kSumBlock);
    auto even = hn::Zero(d), odd = hn::Zero(d);
    auto i = begin;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      even = hn::Add(even, f(d, i));
      odd = hn::Add(odd, f(d, i + lanes));
    }
    float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
    for (; i < end; ++i) sum += hn::GetLane(f(OneLane(), i));
    total += static_cast<double>(sum);
  }
  return total;
}

/// Sum of f(d, i) over n elements, all in double; f gives vectors of double.
template <class F>
HWY_INLINE double sum_lanes_f64(std::int64_t n, const F& f) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d), odd = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even = hn::Add(even, f(d, i));
    odd = hn::Add(odd, f(d, i + lanes));
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < n; ++i) sum += hn::GetLane(f(hn::CappedTag<double, 1>(), i));
  return sum;
}

/// Float elements as doubles.
template <class D>
HWY_INLINE hn::Vec<D> load_f64(D d, const float* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), p));
}

/// Largest element; -inf of none, NaN if one is.
HWY_INLINE float max_of(const float* x, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto largest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto not_a_number = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    largest = hn::Max(largest, v);
    not_a_number = hn::Or(not_a_number, hn::IfThenElseZero(hn::IsNaN(v), v));
  }
  float result = hn::GetLane(hn::MaxOfLanes(d, largest));
  bool nan = !hn::AllFalse(d, hn::IsNaN(not_a_number));
  for (; i < n; ++i) {
    nan |= x[i] != x[i];
    result = std::max(result, x[i]);
  }
  return nan ? std::numeric_limits<float>::quiet_NaN() : result;
}

// Highway's functions with the ends of their range made right: infinities, zeros and NaN.

template <class D, class V = hn::Vec<D>>
HWY_INLINE V exponential(D d, V x) {
  const auto y = hn::Exp(d, hn::Min(hn::Set(d, 104.0F), x));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// exp(x) - 1 for x <= 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V expm1_below_zero(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Expm1(d, x));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const auto one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, exponential(d, hn::Neg(x))));
}

/// log(1 + exp(x)), without overflow.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V softplus(D d, V x) {
  return hn::Add(hn::Max(hn::Zero(d), x), hn::Log1p(d, exponential(d, hn::Neg(hn::Abs(x)))));
}

/// The normal distribution's function, (1 + erf(x / sqrt 2)) / 2, also in its lower tail with small relative error.
/// The polynomials are those of N. Juffa's erff (maximum error 1 ulp): erfc(t) = exp(p(t)) above 475 / 512.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V normal_cdf(D d, V x) {
  const auto c = [d](float value) HWY_ATTR { return hn::Set(d, value); };
  const auto a = hn::Mul(x, c(0.70710678118654752F));
  const auto t = hn::Abs(a);
  const auto s = hn::Mul(a, a);

  auto u = hn::MulAdd(c(-3.88396438e-3F), t, c(2.42546219e-2F));
  auto p = hn::MulAdd(hn::MulAdd(c(-1.72853470e-5F), t, c(3.83197126e-4F)), s, u);
  p = hn::MulAdd(p, t, c(-1.06777877e-1F));
  p = hn::MulAdd(p, t, c(-6.34846687e-1F));
  p = hn::MulAdd(p, t, c(-1.28717512e-1F));
  const auto tail = hn::Mul(c(0.5F), exponential(d, hn::MulAdd(p, t, hn::Neg(t))));  // erfc(t) / 2
  const auto outer = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(c(1.0F), tail));

  auto e = hn::MulAdd(c(-5.96761703e-4F), s, c(4.99119423e-3F));
  e = hn::MulAdd(e, s, c(-2.67681349e-2F));
  e = hn::MulAdd(e, s, c(1.12819925e-1F));
  e = hn::MulAdd(e, s, c(-3.76125336e-1F));
  e = hn::MulAdd(e, s, c(1.28379166e-1F));
  e = hn::MulAdd(e, a, a);
  const auto inner = hn::MulAdd(c(0.5F), e, c(0.5F));

  return hn::IfThenElse(hn::Gt(t, c(0.927734375F)), outer, inner);
}

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
