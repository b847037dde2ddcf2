#pragma once

#include <cuda_runtime.h>

#include "device/cuda/four.h"
#include "device/elementwise_chain.h"

// Included by .cu files only.
namespace tessera::device::cuda {

namespace op {

inline constexpr float kSeluScale = 1.0507009873554804934193349852946F;
inline constexpr float kSeluAlpha = 1.6732632423543772848170429916717F;
inline constexpr float kSqrtTwoOverPi = 0.79788456080286535588F;
inline constexpr float kGeluCubic = 0.044715F;
inline constexpr float kInverseSqrtTwo = 0.70710678118654752440F;
inline constexpr float kInverseSqrtTwoPi = 0.39894228040143267794F;

// A NaN in x passes.
inline __device__ float clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }
inline __device__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
inline __device__ float softplus(float x) { return (x > 0 ? x : 0.0F) + log1pf(expf(-fabsf(x))); }
inline __device__ float normal_cdf(float x) { return 0.5F * erfcf(-x * kInverseSqrtTwo); }
inline __device__ float hard_sigmoid(float x) { return clamp(x + 3, 0, 6) * (1.0F / 6); }
inline __device__ float elu(float x, float above, float below) { return x > 0 ? above * x : below * expm1f(x); }
inline __device__ float gelu_inner(float x) { return tanhf(kSqrtTwoOverPi * (x + kGeluCubic * x * x * x)); }
/// tanh(softplus(x)) = n / (n + 2) with n = e^x (e^x + 2); 1 from x = 20 on.
inline __device__ float tanh_softplus(float x) {
  const float e = expf(x > 20 ? 20.0F : x);
  const float n = e * (e + 2);
  return n / (n + 2);
}

inline __device__ float gelu_grad(float x, float dy) {
  return dy * (x * kInverseSqrtTwoPi * expf(-0.5F * x * x) + normal_cdf(x));
}
inline __device__ float gelu_tanh_grad(float x, float dy) {
  const float t = gelu_inner(x);
  const float dt = (1 - t * t) * kSqrtTwoOverPi * (1 + 3 * kGeluCubic * x * x);
  return dy * (0.5F * (1 + t) + 0.5F * x * dt);
}
inline __device__ float silu_grad(float x, float dy) {
  const float s = sigmoid(x);
  return dy * (x * (1 - s) * s + s);
}
inline __device__ float mish_grad(float x, float dy) {
  const float w = tanh_softplus(x);
  return dy * (x * sigmoid(x) * (1 - w * w) + w);
}
inline __device__ float softsign_grad(float x, float dy) {
  const float s = 1 + fabsf(x);
  return dy / (s * s);
}
inline __device__ float hard_silu_grad(float x, float dy) {
  return dy * (fabsf(x) < 3 ? x * (1.0F / 3) + 0.5F : x > 0 ? 1.0F : 0.0F);
}

}  // namespace op

template <class F>
__device__ Four each(const Four& x, const Four& y, F f) {
  return {{f(x.v[0], y.v[0]), f(x.v[1], y.v[1]), f(x.v[2], y.v[2]), f(x.v[3], y.v[3])}};
}

/// One step of a chain. `f_grad` reads y or x as the room's README says, then dy.
inline __device__ Four apply(ElementwiseOp kind, const Four& x, const Four& y, float a, float b) {
  using Op = ElementwiseOp;
  switch (kind) {
    case Op::kAdd:
      return each(x, y, [](float p, float q) { return p + q; });
    case Op::kSub:
      return each(x, y, [](float p, float q) { return p - q; });
    case Op::kMul:
      return each(x, y, [](float p, float q) { return p * q; });
    case Op::kDiv:
      return each(x, y, [](float p, float q) { return p / q; });
    case Op::kMax:
      return each(x, y, [](float p, float q) { return p < q || q != q ? q : p; });
    case Op::kMin:
      return each(x, y, [](float p, float q) { return p > q || q != q ? q : p; });
    case Op::kAffine:
      return each(x, y, [=](float p, float) { return a * p + b; });
    case Op::kClip:
      return each(x, y, [=](float p, float) { return op::clamp(p, a, b); });
    case Op::kNeg:
      return each(x, y, [](float p, float) { return -p; });
    case Op::kSquare:
      return each(x, y, [](float p, float) { return p * p; });
    case Op::kAbs:
      return each(x, y, [](float p, float) { return fabsf(p); });
    case Op::kSqrt:
      return each(x, y, [](float p, float) { return sqrtf(p); });
    case Op::kLinear:
      return x;
    case Op::kRelu:
      return each(x, y, [](float p, float) { return p < 0 ? 0.0F : p; });
    case Op::kReluGrad:
      return each(x, y, [](float p, float dy) { return p > 0 ? dy : 0.0F; });
    case Op::kRelu6:
      return each(x, y, [](float p, float) { return op::clamp(p, 0, 6); });
    case Op::kRelu6Grad:
      return each(x, y, [](float p, float dy) { return p > 0 && p < 6 ? dy : 0.0F; });
    case Op::kLeakyRelu:
      return each(x, y, [=](float p, float) { return p > 0 ? p : a * p; });
    case Op::kLeakyReluGrad:
      return each(x, y, [=](float p, float dy) { return p > 0 ? dy : a * dy; });
    case Op::kElu:
      return each(x, y, [=](float p, float) { return op::elu(p, 1, a); });
    case Op::kEluGrad:
      return each(x, y, [=](float p, float dy) { return p > 0 ? dy : dy * (p + a); });
    case Op::kSelu:
      return each(x, y, [](float p, float) { return op::elu(p, op::kSeluScale, op::kSeluScale * op::kSeluAlpha); });
    case Op::kSeluGrad:
      return each(x, y, [](float p, float dy) {
        return p > 0 ? dy * op::kSeluScale : dy * (p + op::kSeluScale * op::kSeluAlpha);
      });
    case Op::kCelu:
      return each(x, y, [=](float p, float) { return p > 0 ? p : a * expm1f(p / a); });
    case Op::kCeluGrad:
      return each(x, y, [=](float p, float dy) { return p > 0 ? dy : dy * (p / a + 1); });
    case Op::kGelu:
      return each(x, y, [](float p, float) { return p * op::normal_cdf(p); });
    case Op::kGeluGrad:
      return each(x, y, op::gelu_grad);
    case Op::kGeluTanh:
      return each(x, y, [](float p, float) { return 0.5F * p * (1 + op::gelu_inner(p)); });
    case Op::kGeluTanhGrad:
      return each(x, y, op::gelu_tanh_grad);
    case Op::kSilu:
      return each(x, y, [](float p, float) { return p * op::sigmoid(p); });
    case Op::kSiluGrad:
      return each(x, y, op::silu_grad);
    case Op::kSigmoid:
      return each(x, y, [](float p, float) { return op::sigmoid(p); });
    case Op::kSigmoidGrad:
      return each(x, y, [](float p, float dy) { return dy * p * (1 - p); });
    case Op::kHardSigmoid:
      return each(x, y, [](float p, float) { return op::hard_sigmoid(p); });
    case Op::kHardSigmoidGrad:
      return each(x, y, [](float p, float dy) { return fabsf(p) < 3 ? dy * (1.0F / 6) : 0.0F; });
    case Op::kHardSilu:
      return each(x, y, [](float p, float) { return p * op::hard_sigmoid(p); });
    case Op::kHardSiluGrad:
      return each(x, y, op::hard_silu_grad);
    case Op::kTanh:
      return each(x, y, [](float p, float) { return tanhf(p); });
    case Op::kTanhGrad:
      return each(x, y, [](float p, float dy) { return dy * (1 - p * p); });
    case Op::kSoftplus:
      return each(x, y, [](float p, float) { return op::softplus(p); });
    case Op::kSoftplusGrad:
      return each(x, y, [](float p, float dy) { return dy * op::sigmoid(p); });
    case Op::kSoftsign:
      return each(x, y, [](float p, float) { return p / (1 + fabsf(p)); });
    case Op::kSoftsignGrad:
      return each(x, y, op::softsign_grad);
    case Op::kMish:
      return each(x, y, [](float p, float) { return p * op::tanh_softplus(p); });
    case Op::kMishGrad:
      return each(x, y, op::mish_grad);
    case Op::kExponential:
      return each(x, y, [](float p, float) { return expf(p); });
    case Op::kExponentialGrad:
      return each(x, y, [](float p, float dy) { return dy * p; });
  }
  return x;
}

}  // namespace tessera::device::cuda
