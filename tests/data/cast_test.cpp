#include "data/cast.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace tessera::data {
namespace {

template <typename To, typename From>
std::vector<To> cast_to(DType dtype, NpyType type, const std::vector<From>& in) {
  std::vector<To> out(in.size());
  EXPECT_EQ(cast(type, in.data(), dtype, out.data(), static_cast<std::int64_t>(in.size())), -1);
  return out;
}

template <typename From>
std::int64_t misfit(DType dtype, NpyType type, const std::vector<From>& in) {
  std::vector<std::uint64_t> out(in.size());
  return cast(type, in.data(), dtype, out.data(), static_cast<std::int64_t>(in.size()));
}

TEST(Cast, BytesToFloat) {
  std::vector<std::uint8_t> in(256);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i);
  const auto out = cast_to<float>(DType::kF32, NpyType::kU1, in);
  for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(out[i], static_cast<float>(i));
}

TEST(Cast, EveryIntegerTypeReachesItsEnds) {
  using std::numeric_limits;
  EXPECT_EQ(cast_to<std::int64_t>(DType::kI64, NpyType::kI1, std::vector<std::int8_t>{-128, 127})[0], -128);
  EXPECT_EQ(cast_to<std::int32_t>(DType::kI32, NpyType::kI2, std::vector<std::int16_t>{-32768})[0], -32768);
  EXPECT_EQ(cast_to<std::int32_t>(DType::kI32, NpyType::kI4, std::vector{numeric_limits<std::int32_t>::min()})[0],
            numeric_limits<std::int32_t>::min());
  EXPECT_EQ(cast_to<std::int32_t>(DType::kI32, NpyType::kI8, std::vector<std::int64_t>{2147483647})[0], 2147483647);
  EXPECT_EQ(cast_to<std::int32_t>(DType::kI32, NpyType::kU2, std::vector<std::uint16_t>{65535})[0], 65535);
  EXPECT_EQ(cast_to<std::int64_t>(DType::kI64, NpyType::kU4, std::vector<std::uint32_t>{4294967295})[0], 4294967295);
  EXPECT_EQ(cast_to<std::uint8_t>(DType::kU8, NpyType::kU8, std::vector<std::uint64_t>{255})[0], 255);
}

TEST(Cast, IntegersOutOfRangeAreFound) {
  EXPECT_EQ(misfit(DType::kI32, NpyType::kI8, std::vector<std::int64_t>{1, 2, 1LL << 31, 1LL << 40}), 2);
  EXPECT_EQ(misfit(DType::kI32, NpyType::kU4, std::vector<std::uint32_t>{1U << 31}), 0);
  EXPECT_EQ(misfit(DType::kI64, NpyType::kU8, std::vector<std::uint64_t>{0, 1ULL << 63}), 1);
  EXPECT_EQ(misfit(DType::kU8, NpyType::kI1, std::vector<std::int8_t>{5, -1}), 1);
}

TEST(Cast, FloatsMustBeWholeNumbersInRange) {
  EXPECT_EQ(cast_to<std::int32_t>(DType::kI32, NpyType::kF4, std::vector<float>{-3, 7})[0], -3);
  EXPECT_EQ(misfit(DType::kI32, NpyType::kF4, std::vector<float>{1, 2.5F}), 1);
  EXPECT_EQ(misfit(DType::kI32, NpyType::kF4, std::vector<float>{2147483648.0F}), 0);
  EXPECT_EQ(cast_to<std::int32_t>(DType::kI32, NpyType::kF4, std::vector<float>{-2147483648.0F})[0], INT32_MIN);
  EXPECT_EQ(misfit(DType::kI64, NpyType::kF8, std::vector<double>{9223372036854775808.0}), 0);
  EXPECT_EQ(misfit(DType::kI32, NpyType::kF8, std::vector<double>{0, std::nan("")}), 1);
  EXPECT_EQ(misfit(DType::kU8, NpyType::kF8, std::vector<double>{-1}), 0);
}

TEST(Cast, BoolIsNotZero) {
  EXPECT_EQ(cast_to<std::uint8_t>(DType::kBool, NpyType::kF4, std::vector<float>{0, 0.5F, -2}),
            (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(cast_to<std::uint8_t>(DType::kBool, NpyType::kB1, std::vector<std::uint8_t>{0, 1, 7}),
            (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(cast_to<float>(DType::kF32, NpyType::kB1, std::vector<std::uint8_t>{0, 2}), (std::vector<float>{0, 1}));
}

// Every float16 goes to float32 and back to its own bits.
TEST(Cast, HalfRoundTrip) {
  std::vector<std::uint16_t> in(65536);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
  const auto floats = cast_to<float>(DType::kF32, NpyType::kF2, in);
  const auto back = cast_to<std::uint16_t>(DType::kF16, NpyType::kF4, floats);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (std::isnan(floats[i]))
      EXPECT_EQ(back[i] & 0x7e00, 0x7e00);
    else
      EXPECT_EQ(back[i], in[i]);
  }
  EXPECT_EQ(floats[0x3c00], 1.0F);
  EXPECT_EQ(floats[0xc000], -2.0F);
  EXPECT_EQ(floats[0x0001], std::ldexp(1.0F, -24));
  EXPECT_EQ(floats[0x7bff], 65504.0F);
  EXPECT_TRUE(std::isinf(floats[0xfc00]));
}

TEST(Cast, NarrowFloatsRoundToNearestEven) {
  const std::vector<float> in{1.0F + 0x1p-11F, 1.0F + 3 * 0x1p-11F, 65520.0F, 0x1p-25F, 0x1.8p-25F};
  EXPECT_EQ(cast_to<std::uint16_t>(DType::kF16, NpyType::kF4, in),
            (std::vector<std::uint16_t>{0x3c00, 0x3c02, 0x7c00, 0x0000, 0x0001}));
  const std::vector<float> wide{1.0F + 0x1p-8F, 1.0F + 3 * 0x1p-8F, -2.0F};
  EXPECT_EQ(cast_to<std::uint16_t>(DType::kBF16, NpyType::kF4, wide),
            (std::vector<std::uint16_t>{0x3f80, 0x3f82, 0xc000}));
}

TEST(Cast, EqualTypesCopyBytesButForBool) {
  EXPECT_TRUE(same_bytes(NpyType::kF4, DType::kF32));
  EXPECT_TRUE(same_bytes(NpyType::kF2, DType::kF16));
  EXPECT_TRUE(same_bytes(NpyType::kI8, DType::kI64));
  EXPECT_FALSE(same_bytes(NpyType::kB1, DType::kBool));
  EXPECT_FALSE(same_bytes(NpyType::kU1, DType::kF32));
}

}  // namespace
}  // namespace tessera::data
