#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

namespace tessera::device::cpu {
namespace {

// Two-byte floats and truth values, as they lie in memory.
struct BF16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};
struct Bool {
  std::uint8_t value;
};

float to_float(BF16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

float to_float(F16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1FU, mantissa = x.bits & 0x3FFU;
  if (exponent == 0)
    return std::copysign(static_cast<float>(mantissa) * 0x1p-24F, std::bit_cast<float>(sign | 0x3F800000U));
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | mantissa << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// To the nearest, ties to even.
BF16 to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return {static_cast<std::uint16_t>(bits >> 16 | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16)};
}

F16 to_f16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const auto magnitude = std::fabs(x);
  if (std::isnan(x)) return {static_cast<std::uint16_t>(sign | 0x7E00U)};
  if (magnitude >= 65520.0F) return {static_cast<std::uint16_t>(sign | 0x7C00U)};
  if (magnitude < 0x1p-14F)  // denormal: a multiple of 2^-24
    return {static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p24F)))};
  const auto rounded = (bits & 0x7FFFFFFFU) + 0xFFFU + (bits >> 13 & 1U);
  return {static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>((rounded >> 13) - (112U << 10)))};
}

/// Towards zero; what does not fit becomes the nearest that does, NaN becomes 0.
template <class To, class From>
To to_integer(From x) {
  if constexpr (std::is_floating_point_v<From>) {
    constexpr auto kLow = std::numeric_limits<To>::min();
    constexpr auto kHigh = std::numeric_limits<To>::max();
    if (!(x > static_cast<From>(kLow))) return x != x ? To{0} : kLow;
    if (x >= static_cast<From>(kHigh)) return kHigh;
  }
  return static_cast<To>(x);
}

template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<From, To>) {
    return x;
  } else if constexpr (std::is_same_v<From, BF16> || std::is_same_v<From, F16>) {
    return convert<To>(to_float(x));
  } else if constexpr (std::is_same_v<From, Bool>) {
    return convert<To>(static_cast<std::uint8_t>(x.value != 0));
  } else if constexpr (std::is_same_v<To, BF16>) {
    return to_bf16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, F16>) {
    return to_f16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<std::uint8_t>(x != 0)};
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(x);
  } else {
    return to_integer<To>(x);
  }
}

template <class To, class From>
std::unique_ptr<Kernel> cast_kernel(std::int64_t n, int threads) {
  return kernel_of([=](const Args& args) {
    parallel_for(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto* x = args.in<From>(0);
      auto* y = args.out<To>(0);
      for (auto i = begin; i < end; ++i) y[i] = convert<To>(x[i]);
    });
  });
}

/// f(value of the C++ type that stands for a dtype).
template <class F>
auto with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kBF16:
      return f(BF16{});
    case DType::kF16:
      return f(F16{});
    case DType::kI32:
      return f(std::int32_t{});
    case DType::kI64:
      return f(std::int64_t{});
    case DType::kU8:
      return f(std::uint8_t{});
    case DType::kBool:
      break;
  }
  return f(Bool{});
}

}  // namespace

std::unique_ptr<Kernel> make_cast(const KernelSpec& spec, Context& context) {
  require_counts(spec, 1, 1);
  require(spec, spec.inputs[0].shape == spec.outputs[0].shape, "the shapes differ");
  const auto n = elements(spec.inputs[0].shape);
  return with_type(spec.inputs[0].dtype, [&](auto from) {
    return with_type(spec.outputs[0].dtype,
                     [&](auto to) { return cast_kernel<decltype(to), decltype(from)>(n, context.threads); });
  });
}

}  // namespace tessera::device::cpu
