#include "device/cpu/elementwise_steps.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/elementwise_steps.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {
namespace {

template <class D>
HWY_INLINE hn::Vec<D> num(D d, double value) {
  return hn::Set(d, static_cast<float>(value));
}

constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;

// A function of vectors becomes a loop over a block. The functions are lambdas without state: their type is enough.
template <class F>
constexpr StepKind unary(std::string_view name, F) {
  return {name, [](const StepArgs& s) HWY_ATTR {
            for_lanes(
                s.n, [&](auto d, std::int64_t i) HWY_ATTR { hn::StoreU(F{}(d, hn::LoadU(d, s.x + i)), d, s.out + i); });
          }};
}

template <class F>
constexpr StepKind unary_with(std::string_view name, F) {
  return {name, [](const StepArgs& s) HWY_ATTR {
            for_lanes(s.n, [&](auto d, std::int64_t i) HWY_ATTR {
              hn::StoreU(F{}(d, hn::LoadU(d, s.x + i), hn::Set(d, s.a), hn::Set(d, s.b)), d, s.out + i);
            });
          }};
}

template <class F>
constexpr StepKind binary(std::string_view name, F) {
  return {name, [](const StepArgs& s) HWY_ATTR {
            for_lanes(s.n, [&](auto d, std::int64_t i) HWY_ATTR {
              hn::StoreU(F{}(d, hn::LoadU(d, s.x + i), hn::LoadU(d, s.y + i)), d, s.out + i);
            });
          }};
}

template <class F>
constexpr StepKind binary_with(std::string_view name, F) {  // with one constant
  return {name, [](const StepArgs& s) HWY_ATTR {
            for_lanes(s.n, [&](auto d, std::int64_t i) HWY_ATTR {
              hn::StoreU(F{}(d, hn::LoadU(d, s.x + i), hn::LoadU(d, s.y + i), hn::Set(d, s.a)), d, s.out + i);
            });
          }};
}

// Max and Min of x86 give their second operand where one is NaN: hence the order, which passes a NaN in x on.
template <class D, class V>
HWY_INLINE V clamp(D, V x, V low, V high) {
  return hn::Min(high, hn::Max(low, x));
}

template <class D, class V>
HWY_INLINE V hard_sigmoid(D d, V x) {
  return hn::Mul(clamp(d, hn::Add(x, num(d, 3)), hn::Zero(d), num(d, 6)), num(d, 1.0 / 6));
}

template <class D, class V>
HWY_INLINE V elu(D d, V x, V scale_above, V scale_below) {
  const auto below = hn::Mul(scale_below, expm1_below_zero(d, hn::Min(hn::Zero(d), x)));
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Mul(scale_above, x), below);
}

/// dy where y > 0, else dy * below.
template <class D, class V>
HWY_INLINE V gate(D d, V y, V above, V below) {
  return hn::IfThenElse(hn::Gt(y, hn::Zero(d)), above, below);
}

/// tanh(softplus(x)) = n / (n + 2) with n = e^x (e^x + 2); 1 from x = 20 on.
template <class D, class V>
HWY_INLINE V tanh_softplus(D d, V x) {
  const auto e = exponential(d, hn::Min(num(d, 20), x));
  const auto n = hn::Mul(e, hn::Add(e, num(d, 2)));
  return hn::Div(n, hn::Add(n, num(d, 2)));
}

template <class D, class V>
HWY_INLINE V gelu_tanh_inner(D d, V x) {
  const auto cubic = hn::MulAdd(hn::Mul(num(d, kGeluCubic), hn::Mul(x, x)), x, x);
  return hn::Tanh(d, hn::Mul(num(d, kSqrtTwoOverPi), cubic));
}

// Every op: its name in a program, and what it computes. `f_grad` reads y or x as lib/device/README.md says, then dy.
constexpr StepKind kSteps[] = {
    binary("add", [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); }),
    binary("sub", [](auto, auto x, auto y) HWY_ATTR { return hn::Sub(x, y); }),
    binary("mul", [](auto, auto x, auto y) HWY_ATTR { return hn::Mul(x, y); }),
    binary("div", [](auto, auto x, auto y) HWY_ATTR { return hn::Div(x, y); }),
    binary("max", [](auto, auto x, auto y) HWY_ATTR { return hn::IfThenElse(hn::IsNaN(x), x, hn::Max(x, y)); }),
    binary("min", [](auto, auto x, auto y) HWY_ATTR { return hn::IfThenElse(hn::IsNaN(x), x, hn::Min(x, y)); }),
    unary_with("affine", [](auto, auto x, auto a, auto b) HWY_ATTR { return hn::MulAdd(a, x, b); }),
    unary_with("clip", [](auto d, auto x, auto a, auto b) HWY_ATTR { return clamp(d, x, a, b); }),
    unary("neg", [](auto, auto x) HWY_ATTR { return hn::Neg(x); }),
    unary("square", [](auto, auto x) HWY_ATTR { return hn::Mul(x, x); }),
    unary("abs", [](auto, auto x) HWY_ATTR { return hn::Abs(x); }),
    unary("sqrt", [](auto, auto x) HWY_ATTR { return hn::Sqrt(x); }),
    unary("linear", [](auto, auto x) HWY_ATTR { return x; }),

    unary("relu", [](auto d, auto x) HWY_ATTR { return hn::Max(hn::Zero(d), x); }),
    binary("relu_grad", [](auto d, auto y, auto dy) HWY_ATTR { return gate(d, y, dy, hn::Zero(d)); }),
    unary("relu6", [](auto d, auto x) HWY_ATTR { return clamp(d, x, hn::Zero(d), num(d, 6)); }),
    binary("relu6_grad",
           [](auto d, auto y, auto dy)
               HWY_ATTR { return hn::IfThenElseZero(hn::And(hn::Gt(y, hn::Zero(d)), hn::Lt(y, num(d, 6))), dy); }),
    unary_with("leaky_relu",
               [](auto d, auto x, auto slope, auto) HWY_ATTR { return gate(d, x, x, hn::Mul(slope, x)); }),
    binary_with("leaky_relu_grad",
                [](auto d, auto y, auto dy, auto slope) HWY_ATTR { return gate(d, y, dy, hn::Mul(slope, dy)); }),
    unary_with("elu", [](auto d, auto x, auto alpha, auto) HWY_ATTR { return elu(d, x, num(d, 1), alpha); }),
    binary_with("elu_grad", [](auto d, auto y, auto dy, auto alpha)
                                HWY_ATTR { return gate(d, y, dy, hn::Mul(dy, hn::Add(y, alpha))); }),
    unary("selu",
          [](auto d, auto x) HWY_ATTR { return elu(d, x, num(d, kSeluScale), num(d, kSeluScale * kSeluAlpha)); }),
    binary("selu_grad",
           [](auto d, auto y, auto dy) HWY_ATTR {
             return gate(d, y, hn::Mul(dy, num(d, kSeluScale)),
                         hn::Mul(dy, hn::Add(y, num(d, kSeluScale * kSeluAlpha))));
           }),
    unary_with("celu",
               [](auto d, auto x, auto alpha, auto) HWY_ATTR {
                 const auto below = hn::Mul(alpha, expm1_below_zero(d, hn::Div(hn::Min(hn::Zero(d), x), alpha)));
                 return gate(d, x, x, below);
               }),
    binary_with("celu_grad",
                [](auto d, auto y, auto dy, auto alpha)
                    HWY_ATTR { return gate(d, y, dy, hn::Mul(dy, hn::Add(hn::Div(y, alpha), num(d, 1)))); }),

    unary("gelu", [](auto d, auto x) HWY_ATTR { return hn::Mul(x, normal_cdf(d, x)); }),
    binary("gelu_grad",
           [](auto d, auto x, auto dy) HWY_ATTR {
             const auto density =
                 hn::Mul(num(d, kInverseSqrtTwoPi), exponential(d, hn::Mul(num(d, -0.5), hn::Mul(x, x))));
             return hn::Mul(dy, hn::MulAdd(x, density, normal_cdf(d, x)));
           }),
    unary("gelu_tanh",
          [](auto d, auto x)
              HWY_ATTR { return hn::Mul(hn::Mul(num(d, 0.5), x), hn::Add(num(d, 1), gelu_tanh_inner(d, x))); }),
    binary("gelu_tanh_grad",
           [](auto d, auto x, auto dy) HWY_ATTR {
             const auto t = gelu_tanh_inner(d, x);
             const auto slope =
                 hn::MulAdd(num(d, 3 * kGeluCubic * kSqrtTwoOverPi), hn::Mul(x, x), num(d, kSqrtTwoOverPi));
             const auto dt = hn::Mul(hn::NegMulAdd(t, t, num(d, 1)), slope);
             const auto half = num(d, 0.5);
             return hn::Mul(dy, hn::MulAdd(half, hn::Add(num(d, 1), t), hn::Mul(hn::Mul(half, x), dt)));
           }),
    unary("silu", [](auto d, auto x) HWY_ATTR { return hn::Mul(x, sigmoid(d, x)); }),
    binary("silu_grad",
           [](auto d, auto x, auto dy) HWY_ATTR {
             const auto s = sigmoid(d, x);
             return hn::Mul(dy, hn::MulAdd(hn::Mul(x, s), hn::Sub(num(d, 1), s), s));
           }),
    unary("sigmoid", [](auto d, auto x) HWY_ATTR { return sigmoid(d, x); }),
    binary("sigmoid_grad",
           [](auto d, auto y, auto dy) HWY_ATTR { return hn::Mul(dy, hn::Mul(y, hn::Sub(num(d, 1), y))); }),
    unary("hard_sigmoid", [](auto d, auto x) HWY_ATTR { return hard_sigmoid(d, x); }),
    binary("hard_sigmoid_grad",
           [](auto d, auto x, auto dy)
               HWY_ATTR { return hn::IfThenElseZero(hn::Lt(hn::Abs(x), num(d, 3)), hn::Mul(dy, num(d, 1.0 / 6))); }),
    unary("hard_silu", [](auto d, auto x) HWY_ATTR { return hn::Mul(x, hard_sigmoid(d, x)); }),
    binary("hard_silu_grad",
           [](auto d, auto x, auto dy) HWY_ATTR {
             const auto ramp = hn::MulAdd(x, num(d, 1.0 / 3), num(d, 0.5));
             const auto slope = hn::IfThenElse(hn::Lt(hn::Abs(x), num(d, 3)), ramp,
                                               hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), num(d, 1)));
             return hn::Mul(dy, slope);
           }),
    unary("tanh", [](auto d, auto x) HWY_ATTR { return hn::Tanh(d, x); }),
    binary("tanh_grad", [](auto d, auto y, auto dy) HWY_ATTR { return hn::Mul(dy, hn::NegMulAdd(y, y, num(d, 1))); }),
    unary("softplus", [](auto d, auto x) HWY_ATTR { return softplus(d, x); }),
    binary("softplus_grad", [](auto d, auto x, auto dy) HWY_ATTR { return hn::Mul(dy, sigmoid(d, x)); }),
    unary("softsign", [](auto d, auto x) HWY_ATTR { return hn::Div(x, hn::Add(num(d, 1), hn::Abs(x))); }),
    binary("softsign_grad",
           [](auto d, auto x, auto dy) HWY_ATTR {
             const auto s = hn::Add(num(d, 1), hn::Abs(x));
             return hn::Div(dy, hn::Mul(s, s));
           }),
    unary("mish", [](auto d, auto x) HWY_ATTR { return hn::Mul(x, tanh_softplus(d, x)); }),
    binary("mish_grad",
           [](auto d, auto x, auto dy) HWY_ATTR {
             const auto w = tanh_softplus(d, x);
             return hn::Mul(dy, hn::MulAdd(hn::Mul(x, sigmoid(d, x)), hn::NegMulAdd(w, w, num(d, 1)), w));
           }),
    unary("exponential", [](auto d, auto x) HWY_ATTR { return exponential(d, x); }),
    binary("exponential_grad", [](auto, auto y, auto dy) HWY_ATTR { return hn::Mul(dy, y); }),
};

}  // namespace

std::span<const StepKind> step_table() { return kSteps; }

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::device::cpu {

HWY_EXPORT(step_table);

std::span<const StepKind> step_kinds() { return HWY_DYNAMIC_DISPATCH(step_table)(); }

}  // namespace tessera::device::cpu
#endif  // HWY_ONCE
