#include "device/classes.h"
#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"
#include "device/row_loss_spec.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/row_loss.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {
namespace {

// Each loss of a prediction p and a target y: its value and its derivative by p.

struct Mse {
  template <class D, class V>
  static HWY_INLINE V value(D, V p, V y, const RowLossOptions&) {
    const auto e = hn::Sub(p, y);
    return hn::Mul(e, e);
  }
  template <class D, class V>
  static HWY_INLINE V slope(D, V p, V y, const RowLossOptions&) {
    const auto e = hn::Sub(p, y);
    return hn::Add(e, e);
  }
};

struct Mae {
  template <class D, class V>
  static HWY_INLINE V value(D, V p, V y, const RowLossOptions&) {
    return hn::Abs(hn::Sub(p, y));
  }
  template <class D, class V>
  static HWY_INLINE V slope(D d, V p, V y, const RowLossOptions&) {
    const auto one = hn::Set(d, 1.0F);
    return hn::IfThenElse(hn::Gt(p, y), one, hn::IfThenElseZero(hn::Lt(p, y), hn::Neg(one)));
  }
};

struct Huber {
  template <class D, class V>
  static HWY_INLINE V value(D d, V p, V y, const RowLossOptions& o) {
    const auto e = hn::Abs(hn::Sub(p, y));
    const auto delta = hn::Set(d, o.delta), half = hn::Set(d, 0.5F);
    const auto square = hn::Mul(half, hn::Mul(e, e));
    return hn::IfThenElse(hn::Gt(e, delta), hn::Mul(delta, hn::NegMulAdd(half, delta, e)), square);
  }
  template <class D, class V>
  static HWY_INLINE V slope(D d, V p, V y, const RowLossOptions& o) {
    const auto delta = hn::Set(d, o.delta);
    return hn::Min(delta, hn::Max(hn::Neg(delta), hn::Sub(p, y)));
  }
};

template <class D, class V>
HWY_INLINE V smoothed(D d, V y, const RowLossOptions& o) {
  return hn::MulAdd(y, hn::Set(d, 1 - o.smoothing), hn::Set(d, 0.5F * o.smoothing));
}

struct BinaryLogits {
  template <class D, class V>
  static HWY_INLINE V value(D d, V p, V y, const RowLossOptions& o) {
    return hn::NegMulAdd(p, smoothed(d, y, o), softplus(d, p));
  }
  template <class D, class V>
  static HWY_INLINE V slope(D d, V p, V y, const RowLossOptions& o) {
    return hn::Sub(sigmoid(d, p), smoothed(d, y, o));
  }
};

struct BinaryProbabilities {
  template <class D, class V>
  static HWY_INLINE V value(D d, V p, V y, const RowLossOptions& o) {
    const auto one = hn::Set(d, 1.0F);
    const auto q = hn::Min(hn::Set(d, kMostProbability), hn::Max(hn::Set(d, kLeastProbability), p));
    const auto t = smoothed(d, y, o);
    const auto sum = hn::MulAdd(t, hn::Log(d, q), hn::Mul(hn::Sub(one, t), hn::Log(d, hn::Sub(one, q))));
    return hn::IfThenElse(hn::IsNaN(p), p, hn::Neg(sum));
  }
  template <class D, class V>
  static HWY_INLINE V slope(D d, V p, V y, const RowLossOptions& o) {
    const auto one = hn::Set(d, 1.0F);
    const auto t = smoothed(d, y, o);
    const auto g = hn::Sub(hn::Div(hn::Sub(one, t), hn::Sub(one, p)), hn::Div(t, p));
    const auto inside = hn::And(hn::Ge(p, hn::Set(d, kLeastProbability)), hn::Le(p, hn::Set(d, kMostProbability)));
    return hn::IfThenElse(hn::IsNaN(p), p, hn::IfThenElseZero(inside, g));
  }
};

template <class L>
double value_row(const float* p, const float* y, std::int64_t n, const RowLossOptions& o) {
  return sum_lanes(
      n, [&](auto d, std::int64_t i) HWY_ATTR { return L::value(d, hn::LoadU(d, p + i), hn::LoadU(d, y + i), o); });
}

template <class L>
void slope_row(const float* p, const float* y, float* dp, std::int64_t n, float factor, const RowLossOptions& o) {
  for_lanes(n, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::Set(d, factor), L::slope(d, hn::LoadU(d, p + i), hn::LoadU(d, y + i), o)), d, dp + i);
  });
}

}  // namespace

double row_loss_value(const float* p, const float* y, std::int64_t n, const RowLossOptions& o) {
  switch (o.kind) {
    case RowLoss::kMse:
      return value_row<Mse>(p, y, n, o);
    case RowLoss::kMae:
      return value_row<Mae>(p, y, n, o);
    case RowLoss::kHuber:
      return value_row<Huber>(p, y, n, o);
    case RowLoss::kBinaryLogits:
      return value_row<BinaryLogits>(p, y, n, o);
    case RowLoss::kBinaryProbabilities:
      break;
  }
  return value_row<BinaryProbabilities>(p, y, n, o);
}

void row_loss_slope(const float* p, const float* y, float* dp, std::int64_t n, float factor, const RowLossOptions& o) {
  switch (o.kind) {
    case RowLoss::kMse:
      return slope_row<Mse>(p, y, dp, n, factor, o);
    case RowLoss::kMae:
      return slope_row<Mae>(p, y, dp, n, factor, o);
    case RowLoss::kHuber:
      return slope_row<Huber>(p, y, dp, n, factor, o);
    case RowLoss::kBinaryLogits:
      return slope_row<BinaryLogits>(p, y, dp, n, factor, o);
    case RowLoss::kBinaryProbabilities:
      break;
  }
  return slope_row<BinaryProbabilities>(p, y, dp, n, factor, o);
}

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::device::cpu {

HWY_EXPORT(row_loss_value);
HWY_EXPORT(row_loss_slope);

std::unique_ptr<Kernel> make_row_loss(const KernelSpec& spec, Context& context) {
  require_counts(spec, 2, 1);
  const auto [rows, cols] = rows_of(input(spec, 0));
  require_input(spec, 1, spec.inputs[0].shape);
  require_output(spec, 0, leading(spec.inputs[0].shape));
  return kernel_of([rows = rows, cols = cols, o = parse_row_loss(spec), threads = context.threads](const Args& args) {
    each_row(threads, rows, cols, [&](std::int64_t r) {
      args.out(0)[r] = static_cast<float>(
          o.scale * HWY_DYNAMIC_DISPATCH(row_loss_value)(args.in(0) + r * cols, args.in(1) + r * cols, cols, o));
    });
  });
}

std::unique_ptr<Kernel> make_row_loss_backward(const KernelSpec& spec, Context& context) {
  require_counts(spec, 3, 1);
  const auto [rows, cols] = rows_of(input(spec, 0));
  require_input(spec, 1, spec.inputs[0].shape);
  require_input(spec, 2, leading(spec.inputs[0].shape));
  require_output(spec, 0, spec.inputs[0].shape);
  return kernel_of([rows = rows, cols = cols, o = parse_row_loss(spec), threads = context.threads](const Args& args) {
    each_row(threads, rows, cols, [&](std::int64_t r) {
      const auto factor = static_cast<float>(o.scale * static_cast<double>(args.in(2)[r]));
      HWY_DYNAMIC_DISPATCH(row_loss_slope)
      (args.in(0) + r * cols, args.in(1) + r * cols, args.out(0) + r * cols, cols, factor, o);
    });
  });
}

}  // namespace tessera::device::cpu
#endif  // HWY_ONCE
