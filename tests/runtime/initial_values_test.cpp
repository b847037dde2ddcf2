#include "runtime/initial_values.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/philox.h"
#include "runtime/draws.h"

namespace tessera::runtime {
namespace {

using Kind = graph::Initializer::Kind;

std::vector<float> draw(const graph::Initializer& init, const Shape& shape, const Box& box) {
  std::vector<float> values(static_cast<std::size_t>(elements(box.size)));
  initial_values(init, shape, box, DType::kF32, 0, elements(box.size), values.data());
  return values;
}

std::vector<float> draw_whole(const graph::Initializer& init, const Shape& shape) {
  return draw(init, shape, {Shape(shape.size(), 0), shape});
}

struct Moments {
  double mean = 0, stddev = 0, low = 1e9, high = -1e9;
};
Moments moments(const std::vector<float>& values) {
  Moments m;
  for (const float v : values) {
    m.mean += v;
    m.low = std::min<double>(m.low, v);
    m.high = std::max<double>(m.high, v);
  }
  m.mean /= static_cast<double>(values.size());
  for (const float v : values) m.stddev += (v - m.mean) * (v - m.mean);
  m.stddev = std::sqrt(m.stddev / static_cast<double>(values.size()));
  return m;
}

TEST(InitialValues, AShardHasTheBitsOfItsPartOfTheWhole) {
  const Shape shape{6, 10};
  const Box box{{2, 5}, {3, 4}};
  for (const auto kind : {Kind::kUniform, Kind::kNormal, Kind::kTruncatedNormal}) {
    const graph::Initializer init{.kind = kind, .low = -1, .high = 2, .stddev = 1, .key = 77};
    const auto whole = draw_whole(init, shape);
    const auto part = draw(init, shape, box);
    for (std::size_t r = 0; r < 3; ++r)
      for (std::size_t c = 0; c < 4; ++c) EXPECT_EQ(part[r * 4 + c], whole[(r + 2) * 10 + c + 5]);
  }
}

TEST(InitialValues, AShardOfAnOrthogonalMatrixIsItsPartOfTheWhole) {
  const graph::Initializer init{.kind = Kind::kOrthogonal, .value = 1.5, .key = 5};
  for (const Shape& shape : {Shape{150, 90}, Shape{90, 150}, Shape{2, 75, 90}}) {
    const auto whole = draw_whole(init, shape);
    Box box{Shape(shape.size(), 0), shape};
    box.start.back() = 30;
    box.size.back() = 45;
    box.start[shape.size() - 2] = 25;
    box.size[shape.size() - 2] = 50;
    const auto part = draw(init, shape, box);
    const auto strides = strides_of(shape);
    for (std::int64_t k = 0; k < elements(box.size); ++k)
      ASSERT_EQ(part[static_cast<std::size_t>(k)], whole[static_cast<std::size_t>(global_index(box, strides, k))]);
  }
}

TEST(InitialValues, OrthogonalMatricesAreSpreadEvenly) {
  // Each element of a uniformly distributed orthogonal 3 x 3 matrix is uniform in [-1, 1].
  std::vector<float> corner, middle;
  for (std::uint64_t key = 0; key < 3000; ++key) {
    const auto q = draw_whole({.kind = Kind::kOrthogonal, .value = 1, .key = key}, {3, 3});
    corner.push_back(q[0]);
    middle.push_back(q[7]);
  }
  for (const auto& values : {corner, middle}) {
    const auto m = moments(values);
    EXPECT_NEAR(m.mean, 0, 0.04);
    EXPECT_NEAR(m.stddev, std::sqrt(1.0 / 3), 0.02);
  }
}

TEST(InitialValues, APieceContinuesWhereTheOneBeforeEnded) {
  const graph::Initializer init{.kind = Kind::kUniform, .low = 0, .high = 1, .key = 3};
  const auto whole = draw_whole(init, {5, 7});
  std::vector<float> tail(15);
  initial_values(init, {5, 7}, {{0, 0}, {5, 7}}, DType::kF32, 20, 15, tail.data());
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), whole.begin() + 20));
}

TEST(InitialValues, UniformIsAnAffineFunctionOfThePhiloxBits) {
  const graph::Initializer init{.kind = Kind::kUniform, .low = -0.5, .high = 0.5, .key = 9};
  const auto values = draw_whole(init, {100});
  for (std::size_t e = 0; e < values.size(); ++e)
    EXPECT_EQ(values[e], static_cast<float>(-0.5 + uniform_01(philox_bits(9, e, 0))));
}

TEST(InitialValues, NormalHasItsMoments) {
  const auto m = moments(draw_whole({.kind = Kind::kNormal, .mean = 1, .stddev = 2, .key = 5}, {400, 500}));
  EXPECT_NEAR(m.mean, 1, 0.02);
  EXPECT_NEAR(m.stddev, 2, 0.02);
}

TEST(InitialValues, TruncatedNormalStaysWithinTwoSigma) {
  const auto m = moments(draw_whole({.kind = Kind::kTruncatedNormal, .stddev = 3, .key = 5}, {400, 500}));
  EXPECT_NEAR(m.mean, 0, 0.02);
  EXPECT_NEAR(m.stddev, 3 * 0.87962566103423978, 0.02);  // of the cut distribution
  EXPECT_GE(m.low, -6);
  EXPECT_LE(m.high, 6);
}

TEST(InitialValues, IdentityPutsTheGainOnTheDiagonalOfTheWhole) {
  const auto part = draw({.kind = Kind::kIdentity, .value = 2}, {4, 4}, {{2, 0}, {2, 4}});
  EXPECT_EQ(part, (std::vector<float>{0, 0, 2, 0, 0, 0, 0, 2}));
}

TEST(InitialValues, IntegersTakeConstantsOnly) {
  std::int64_t value = 0;
  initial_values({.value = 7}, {}, {}, DType::kI64, 0, 1, &value);
  EXPECT_EQ(value, 7);
  EXPECT_THROW(initial_values({.kind = Kind::kUniform}, {}, {}, DType::kI64, 0, 1, &value), Error);
}

TEST(InverseNormal, IsTheInverseToDoublePrecision) {
  for (const double p : {1e-12, 1e-5, 0.01, 0.3, 0.5, 0.7, 0.99, 1 - 1e-9})
    EXPECT_NEAR(0.5 * std::erfc(-inverse_normal(p) / std::sqrt(2.0)) / p, 1, 1e-12) << p;
  EXPECT_NEAR(inverse_normal(0.975), 1.959963984540054, 1e-14);
}

}  // namespace
}  // namespace tessera::runtime
