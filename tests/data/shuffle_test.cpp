#include "data/shuffle.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace tessera::data {
namespace {

TEST(Permutation, IsABijectionForEverySizeUpTo2000) {
  for (std::int64_t n = 1; n <= 2000; ++n) {
    const auto order = shuffled(n, 42, n % 3);
    std::vector<bool> seen(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      const auto sample = order(i);
      ASSERT_GE(sample, 0);
      ASSERT_LT(sample, n);
      ASSERT_FALSE(seen[static_cast<std::size_t>(sample)]) << n;
      seen[static_cast<std::size_t>(sample)] = true;
    }
  }
}

TEST(Permutation, WorksBeyondFourBillionSamples) {
  const std::int64_t n = (std::int64_t{1} << 40) + 1;
  const auto order = shuffled(n, 1, 0);
  std::int64_t above = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    ASSERT_LT(order(n - 1 - i), n);
    above += order(i) > n / 2 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(above), 500, 80);
}

std::int64_t equal_places(const Permutation& a, const Permutation& b, std::int64_t n) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) count += a(i) == b(i) ? 1 : 0;
  return count;
}

TEST(Permutation, DiffersByPassAndBySeed) {
  EXPECT_LT(equal_places(shuffled(1000, 1, 0), shuffled(1000, 1, 1), 1000), 10);
  EXPECT_LT(equal_places(shuffled(1000, 1, 0), shuffled(1000, 2, 0), 1000), 10);
  EXPECT_EQ(equal_places(shuffled(1000, 1, 5), shuffled(1000, 1, 5), 1000), 1000);
}

TEST(Permutation, EverySampleIsEquallyLikelyAtEveryPosition) {
  constexpr int kSamples = 10, kPasses = 20000;
  std::vector<int> count(kSamples * kSamples);
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto order = shuffled(kSamples, 3, pass);
    for (int i = 0; i < kSamples; ++i) ++count[static_cast<std::size_t>(i * kSamples + order(i))];
  }
  for (const int c : count) EXPECT_NEAR(c, kPasses / kSamples, 6 * std::sqrt(kPasses / kSamples));
}

// Resumed runs and other machines go on in the same order.
TEST(Permutation, KnownOrder) {
  const auto order = shuffled(8, 0, 0);
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < 8; ++i) samples.push_back(order(i));
  EXPECT_EQ(samples, (std::vector<std::int64_t>{0, 7, 5, 2, 1, 3, 4, 6}));
}

}  // namespace
}  // namespace tessera::data
