#include "checkpoint/convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/error.h"

namespace tessera::checkpoint {
namespace {

/// A 16-bit float: its bits. kMantissa counts the stored bits; the smallest normal number is 2^kMinExponent.
template <int mantissa, int min_exponent>
struct Small {
  static constexpr int kMantissa = mantissa;
  static constexpr int kMinExponent = min_exponent;
  std::uint16_t bits;
};
using Half = Small<10, -14>;
using BFloat = Small<7, -126>;

template <typename S>
constexpr int kExponentBits = 15 - S::kMantissa;

template <typename S>
double to_double(S value) {
  constexpr int kMaxExponent = (1 << kExponentBits<S>)-1;
  const int exponent = value.bits >> S::kMantissa & kMaxExponent;
  const double fraction = value.bits & ((1 << S::kMantissa) - 1);
  const double sign = (value.bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == kMaxExponent)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, S::kMinExponent - S::kMantissa);
  return sign * std::ldexp(fraction + (1 << S::kMantissa), S::kMinExponent - S::kMantissa + exponent - 1);
}

/// Rounded once, to nearest, ties to even: the steps between representable numbers are 2^(exponent - kMantissa).
template <typename S>
S from_double(double value) {
  constexpr int kInfinity = ((1 << kExponentBits<S>)-1) << S::kMantissa;
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return {static_cast<std::uint16_t>(sign | kInfinity | 1 << (S::kMantissa - 1))};
  if (std::isinf(value)) return {static_cast<std::uint16_t>(sign | kInfinity)};
  int exponent = value == 0 ? S::kMinExponent : std::ilogb(value);
  exponent = std::max(exponent, S::kMinExponent);
  const double steps = std::nearbyint(std::ldexp(std::fabs(value), S::kMantissa - exponent));
  // Steps count on through the exponents: a mantissa that rounds up to the next power carries into the exponent's bits.
  const double bits = steps + static_cast<double>(exponent - S::kMinExponent) * (1 << S::kMantissa);
  return {static_cast<std::uint16_t>(sign | (bits < kInfinity ? static_cast<int>(bits) : kInfinity))};
}

template <typename T>
auto load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat>) {
    return to_double(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<std::int64_t>(value);
  }
}

template <typename T, typename V>
bool store(V value, char* at) {
  T result{};
  bool fits = true;
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat>) {
    result = from_double<T>(static_cast<double>(value));
  } else if constexpr (std::is_integral_v<T> && std::is_same_v<V, std::int64_t>) {
    fits = value >= static_cast<std::int64_t>(std::numeric_limits<T>::min()) &&
           value <= static_cast<std::int64_t>(std::numeric_limits<T>::max());
    result = static_cast<T>(value);
  } else {
    result = static_cast<T>(value);
  }
  std::memcpy(at, &result, sizeof result);
  return fits;
}

template <typename T>
struct Tag {
  using Type = T;
};

template <typename F>
auto dispatch(DType dtype, const F& call) {
  switch (dtype) {
    case DType::kF32:
      return call(Tag<float>{});
    case DType::kF64:
      return call(Tag<double>{});
    case DType::kBF16:
      return call(Tag<BFloat>{});
    case DType::kF16:
      return call(Tag<Half>{});
    case DType::kI32:
      return call(Tag<std::int32_t>{});
    case DType::kI64:
      return call(Tag<std::int64_t>{});
    case DType::kU8:
      return call(Tag<std::uint8_t>{});
    case DType::kBool:
      break;
  }
  return call(Tag<bool>{});
}

}  // namespace

bool is_convertible(DType from, DType to) { return is_float(to) || !is_float(from); }

bool convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count) {
  TESSERA_CHECK(is_convertible(from_dtype, to_dtype), "{} to {}", to_string(from_dtype), to_string(to_dtype));
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size_of(from_dtype)));
    return true;
  }
  return dispatch(from_dtype, [&](auto from_tag) {
    return dispatch(to_dtype, [&](auto to_tag) {
      using From = typename decltype(from_tag)::Type;
      using To = typename decltype(to_tag)::Type;
      const auto* source = static_cast<const char*>(from);
      auto* target = static_cast<char*>(to);
      bool fits = true;
      for (std::int64_t i = 0; i < count; ++i) {
        const bool fit = store<To>(load<From>(source), target);
        fits = fits && fit;
        source += sizeof(From);
        target += sizeof(To);
      }
      return fits;
    });
  });
}

}  // namespace tessera::checkpoint
