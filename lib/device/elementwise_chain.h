#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace tessera::device {

/// The ops of the kernel `elementwise`; README.md says what each computes.
enum class ElementwiseOp : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kAffine,
  kClip,
  kNeg,
  kSquare,
  kAbs,
  kSqrt,
  kLinear,
  kRelu,
  kReluGrad,
  kRelu6,
  kRelu6Grad,
  kLeakyRelu,
  kLeakyReluGrad,
  kElu,
  kEluGrad,
  kSelu,
  kSeluGrad,
  kCelu,
  kCeluGrad,
  kGelu,
  kGeluGrad,
  kGeluTanh,
  kGeluTanhGrad,
  kSilu,
  kSiluGrad,
  kSigmoid,
  kSigmoidGrad,
  kHardSigmoid,
  kHardSigmoidGrad,
  kHardSilu,
  kHardSiluGrad,
  kTanh,
  kTanhGrad,
  kSoftplus,
  kSoftplusGrad,
  kSoftsign,
  kSoftsignGrad,
  kMish,
  kMishGrad,
  kExponential,
  kExponentialGrad,
};
inline constexpr int kElementwiseOps = static_cast<int>(ElementwiseOp::kExponentialGrad) + 1;

/// "gelu_tanh_grad"
std::string_view name_of(ElementwiseOp op);

/// A program of the kernel `elementwise`, parsed: every backend runs this.
struct ElementwiseChain {
  /// How an input covers the shape of the result.
  enum class Spread : std::uint8_t { kFull, kScalar, kRows, kColumns };
  struct Input {
    Spread spread = Spread::kFull;
    std::int64_t size = 1;  // kRows: elements until it repeats; kColumns: elements that share a value
  };
  enum class From : std::uint8_t { kInput, kStep, kConstant };
  struct Operand {
    From from = From::kInput;
    int index = 0;
    bool operator==(const Operand&) const = default;
  };
  struct Step {
    ElementwiseOp op = ElementwiseOp::kLinear;
    Operand x, y;  // of ops with one tensor y is x
    float a = 0, b = 0;
    int result = -1;  // the output that it is, or -1
  };

  std::vector<Input> inputs;
  std::vector<Step> steps;
  std::vector<float> constants;
  std::vector<std::int64_t> results;  // step of each output
  std::int64_t size = 0;              // elements of the result
};

/// `results`: step numbers; empty: the last. Throws Error (internal) for text that is no program, and for an input
/// whose shape does not broadcast to `shape`.
ElementwiseChain parse_chain(const std::string& program, const std::vector<Shape>& inputs, const Shape& shape,
                             std::vector<std::int64_t> results);

}  // namespace tessera::device
