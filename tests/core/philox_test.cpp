#include "core/philox.h"

#include <vector>

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers of Random123 1.09 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswerOfZeros) {
  EXPECT_EQ(philox(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(Philox, KnownAnswerOfOnes) {
  EXPECT_EQ(philox(~0ULL, ~0ULL, ~0ULL), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, KnownAnswerOfPi) {
  EXPECT_EQ(philox(0x299f31d0a4093822ULL, 0x85a308d3243f6a88ULL, 0x0370734413198a2eULL),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, FillGivesWhatEachElementGetsAlone) {
  constexpr std::uint64_t kCarry = std::uint64_t{1} << 34;  // the lower half of the counter overflows at this element
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{5}, kCarry - 38, kCarry - 3})
    for (const std::size_t count : {0, 1, 2, 7, 64, 203}) {
      std::vector<std::uint32_t> bits(count);
      philox_fill(11, first, 3, bits);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(bits[i], philox_bits(11, first + i, 3)) << "element " << first << " + " << i << " of " << count;
    }
}

TEST(Philox, KeyDependsOnSeedPurposeAndPath) {
  const auto key = philox_key(1, "init", "dense/kernel");
  EXPECT_EQ(key, philox_key(1, "init", "dense/kernel"));
  EXPECT_NE(key, philox_key(2, "init", "dense/kernel"));
  EXPECT_NE(key, philox_key(1, "dropout", "dense/kernel"));
  EXPECT_NE(key, philox_key(1, "initd", "ense/kernel"));
}

TEST(Philox, UniformIsBelowOne) {
  EXPECT_EQ(uniform_01(0), 0.0F);
  EXPECT_LT(uniform_01(~0U), 1.0F);
}

}  // namespace
}  // namespace tessera
