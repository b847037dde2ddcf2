#include "checkpoint/convert.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace tessera::checkpoint {
namespace {

std::uint16_t bits_of(double value, DType dtype) {
  std::uint16_t bits = 0;
  convert(&value, DType::kF64, &bits, dtype, 1);
  return bits;
}

TEST(Convert, HalvesRoundToNearestEven) {
  constexpr double kUlp = 0x1p-10;  // of 1.0
  EXPECT_EQ(bits_of(1.0, DType::kF16), 0x3C00);
  EXPECT_EQ(bits_of(1 + kUlp / 2, DType::kF16), 0x3C00);
  EXPECT_EQ(bits_of(1 + 3 * kUlp / 2, DType::kF16), 0x3C02);
  EXPECT_EQ(bits_of(1 + kUlp / 2 + 0x1p-40, DType::kF16), 0x3C01);
  EXPECT_EQ(bits_of(-2.0, DType::kF16), 0xC000);
  EXPECT_EQ(bits_of(65504, DType::kF16), 0x7BFF);
  EXPECT_EQ(bits_of(65520, DType::kF16), 0x7C00);
  EXPECT_EQ(bits_of(0x1p-24, DType::kF16), 0x0001);
  EXPECT_EQ(bits_of(0x1p-25, DType::kF16), 0x0000);
  EXPECT_EQ(bits_of(-0.0, DType::kF16), 0x8000);
  EXPECT_EQ(bits_of(2 - kUlp / 4, DType::kF16), 0x4000);
}

TEST(Convert, BFloatsAreTheUpperHalfOfAFloat) {
  EXPECT_EQ(bits_of(1.0, DType::kBF16), 0x3F80);
  EXPECT_EQ(bits_of(1 + 0x1p-8, DType::kBF16), 0x3F80);
  EXPECT_EQ(bits_of(1 + 0x3p-8, DType::kBF16), 0x3F82);
  EXPECT_EQ(bits_of(3.4e38, DType::kBF16), 0x7F80);
  EXPECT_EQ(bits_of(std::numeric_limits<double>::infinity(), DType::kBF16), 0x7F80);
}

TEST(Convert, EverySmallFloatComesBack) {
  for (const auto dtype : {DType::kF16, DType::kBF16}) {
    for (int bits = 0; bits < 0x10000; ++bits) {
      const auto small = static_cast<std::uint16_t>(bits);
      float wide = 0;
      std::uint16_t back = 0;
      convert(&small, dtype, &wide, DType::kF32, 1);
      convert(&wide, DType::kF32, &back, dtype, 1);
      ASSERT_TRUE(back == small || std::isnan(wide)) << to_string(dtype) << " " << bits;
    }
  }
}

TEST(Convert, IntegersMustFit) {
  const std::vector<std::int64_t> values{0, 255, 256};
  std::array<std::uint8_t, 3> bytes{};
  EXPECT_TRUE(convert(values.data(), DType::kI64, bytes.data(), DType::kU8, 2));
  EXPECT_EQ(bytes[1], 255);
  EXPECT_FALSE(convert(values.data(), DType::kI64, bytes.data(), DType::kU8, 3));
  EXPECT_FALSE(is_convertible(DType::kF32, DType::kI32));
}

}  // namespace
}  // namespace tessera::checkpoint
