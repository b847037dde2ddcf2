#include "core/checksum.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "core/error_text.h"

namespace tessera {
namespace {

TEST(Checksum, PartsAddUpToTheWhole) {
  std::vector<std::uint32_t> x(1000);
  std::iota(x.begin(), x.end(), 7U);
  const auto whole = checksum(x.data(), 1000, 4, 0);
  for (const std::int64_t cut : {0, 1, 500, 999, 1000})
    EXPECT_EQ(checksum(x.data() + cut, 1000 - cut, 4, cut) + checksum(x.data(), cut, 4, 0), whole) << cut;
}

TEST(Checksum, AChangedBitAndASwapAreSeen) {
  for (const std::int64_t item : {1, 2, 4, 8}) {
    std::vector<unsigned char> x(64);
    std::iota(x.begin(), x.end(), static_cast<unsigned char>(0));
    const auto before = checksum(x.data(), 64 / item, item, 0);
    for (const std::size_t at : {0U, 31U, 63U}) {
      x[at] ^= 16;
      EXPECT_NE(checksum(x.data(), 64 / item, item, 0), before);
      x[at] ^= 16;
    }
    std::swap_ranges(x.begin(), x.begin() + item, x.begin() + 2 * item);
    EXPECT_NE(checksum(x.data(), 64 / item, item, 0), before);
  }
}

TEST(Checksum, ItsTextReadsBack) {
  EXPECT_EQ(checksum_text(0xABC), "0000000000000abc");
  EXPECT_EQ(checksum_value(checksum_text(~0ULL)), ~0ULL);
  for (const auto* text : {"", "abc", "000000000000000g", "00000000000000000"})
    EXPECT_NE(error_text([&] { checksum_value(text); }), "") << text;
}

}  // namespace
}  // namespace tessera
