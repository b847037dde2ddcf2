#include "data/cast.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"

namespace tessera::data {
namespace {

enum class Half : std::uint16_t {};
enum class BFloat : std::uint16_t {};
enum class Bool : std::uint8_t {};

float to_float(Half half) {
  const auto bits = static_cast<std::uint32_t>(half);
  const auto sign = (bits & 0x8000U) << 16;
  const auto magnitude = bits & 0x7fffU;
  // Scaling by 2^112 corrects the exponent's bias, of denormals too; infinity and NaN get the largest exponent.
  const auto value = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112F);
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00U ? value | 0x7f800000U : value));
}

// Round to nearest, ties to even. NaN stays NaN.
BFloat to_bfloat(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<BFloat>(bits >> 16 | 0x40U);
  return static_cast<BFloat>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

Half to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = bits >> 16 & 0x8000U;
  auto magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<Half>(sign | 0x7e00U);
  if (magnitude >= 0x47800000U) return static_cast<Half>(sign | 0x7c00U);  // 2^16 and above
  if (magnitude < 0x38800000U) {  // denormal: adding 0.5 leaves the rounded result in the low bits
    magnitude = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    return static_cast<Half>(sign | magnitude);
  }
  magnitude += 0xfffU + (magnitude >> 13 & 1U) - (112U << 23);
  return static_cast<Half>(sign | magnitude >> 13);
}

// What an element is as a number: itself, a float for float16, 0 or 1 for bool.
template <typename T>
auto number(T value) {
  if constexpr (std::is_same_v<T, Half>)
    return to_float(value);
  else if constexpr (std::is_same_v<T, Bool>)
    return static_cast<std::uint8_t>(static_cast<std::uint8_t>(value) != 0);
  else
    return value;
}

template <typename To, typename Number>
bool fits(Number value) {
  if constexpr (std::is_integral_v<Number>) {
    return std::in_range<To>(value);
  } else {
    constexpr auto kLow = static_cast<Number>(std::numeric_limits<To>::min());
    constexpr auto kHigh = static_cast<Number>(std::uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * 2;
    return value >= kLow && value < kHigh && value == std::trunc(value);
  }
}

template <typename To, typename Number>
To convert(Number value) {
  if constexpr (std::is_same_v<To, Bool>)
    return static_cast<Bool>(value != 0);
  else if constexpr (std::is_same_v<To, Half>)
    return to_half(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, BFloat>)
    return to_bfloat(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

// The loops have no exit, so that they vectorise; the place of a misfit is looked for afterwards.
template <typename From, typename To>
std::int64_t cast_all(const From* in, To* out, std::int64_t count) {
  if constexpr (std::is_integral_v<To>) {
    bool good = true;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = number(in[i]);
      const bool ok = fits<To>(value);
      out[i] = ok ? static_cast<To>(value) : To{0};
      good &= ok;
    }
    if (good) return -1;
    for (std::int64_t i = 0; i < count; ++i)
      if (!fits<To>(number(in[i]))) return i;
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = convert<To>(number(in[i]));
  }
  return -1;
}

template <typename Function>
auto with_type(NpyType type, Function function) {
  switch (type) {
    case NpyType::kF2:
      return function(Half{});
    case NpyType::kF4:
      return function(float{});
    case NpyType::kF8:
      return function(double{});
    case NpyType::kI1:
      return function(std::int8_t{});
    case NpyType::kI2:
      return function(std::int16_t{});
    case NpyType::kI4:
      return function(std::int32_t{});
    case NpyType::kI8:
      return function(std::int64_t{});
    case NpyType::kU1:
      return function(std::uint8_t{});
    case NpyType::kU2:
      return function(std::uint16_t{});
    case NpyType::kU4:
      return function(std::uint32_t{});
    case NpyType::kU8:
      return function(std::uint64_t{});
    case NpyType::kB1:
      return function(Bool{});
  }
  fail(ExitCode::kInternal, "no such type of .npy elements: {}", static_cast<int>(type));
}

template <typename Function>
auto with_type(DType type, Function function) {
  switch (type) {
    case DType::kF32:
      return function(float{});
    case DType::kF64:
      return function(double{});
    case DType::kBF16:
      return function(BFloat{});
    case DType::kF16:
      return function(Half{});
    case DType::kI32:
      return function(std::int32_t{});
    case DType::kI64:
      return function(std::int64_t{});
    case DType::kU8:
      return function(std::uint8_t{});
    case DType::kBool:
      return function(Bool{});
  }
  fail(ExitCode::kInternal, "no such dtype: {}", static_cast<int>(type));
}

}  // namespace

bool same_bytes(NpyType from, DType to) {
  return with_type(from, [&](auto a) {
    return with_type(to, [&](auto b) {
      return std::is_same_v<decltype(a), decltype(b)> &&
             !std::is_same_v<decltype(a), Bool>;  // a bool may be written as 2
    });
  });
}

std::int64_t cast(NpyType from, const void* in, DType to, void* out, std::int64_t count) {
  return with_type(from, [&](auto a) {
    return with_type(to, [&](auto b) {
      using From = decltype(a);
      using To = decltype(b);
      return cast_all(static_cast<const From*>(in), static_cast<To*>(out), count);
    });
  });
}

std::string element_text(NpyType type, const void* element) {
  return with_type(type, [&](auto a) {
    std::memcpy(&a, element, sizeof a);
    return fmt::format("{}", number(a));
  });
}

}  // namespace tessera::data
