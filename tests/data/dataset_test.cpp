#include "data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/npy_writer.h"
#include "expect_error.h"

namespace tessera::data {
namespace {

using testing::Each;
using testing::ElementsAre;

config::DataSpec npy(std::map<std::string, std::string> files) {
  config::DataSpec spec;
  spec.npy = std::move(files);
  int line = 20;
  for (const auto& [key, path] : spec.npy) spec.npy_pos[key] = {"digits.yaml", line++, 15};
  spec.pos = {"digits.yaml", 19, 10};
  return spec;
}

config::DataSpec random(std::int64_t samples) {
  config::DataSpec spec;
  spec.random_samples = samples;
  spec.pos = {"digits.yaml", 19, 10};
  return spec;
}

Box whole(const Shape& shape) { return {Shape(shape.size()), shape}; }

template <typename T>
std::vector<T> read(const Dataset& dataset, const std::string& key, std::int64_t first, std::int64_t count,
                    const Box& box, std::size_t scratch_bytes = kScratchBytes) {
  std::vector<T> out(static_cast<std::size_t>(count * elements(box.size)));
  std::vector<std::byte> scratch(scratch_bytes);
  dataset.source(static_cast<std::size_t>(dataset.find(key)))
      .read(first, count, box, reinterpret_cast<std::byte*>(out.data()), scratch);
  return out;
}

// The bytes 0, 1, 2, ... as (6, 4, 5).
std::string counted_bytes() {
  std::vector<std::uint8_t> bytes(120);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  return write_npy("bytes.npy", "|u1", {6, 4, 5}, bytes);
}

TEST(Dataset, RowsAreCastToTheInputsDtype) {
  const Dataset dataset(npy({{"x", counted_bytes()}}), {{"x", {4, 5}, DType::kF32}}, 0);
  EXPECT_EQ(dataset.samples(), 6);
  const auto rows = read<float>(dataset, "x", 2, 2, whole({4, 5}));
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], static_cast<float>(40 + i));
}

// With little scratch the parts of a row are read run by run.
TEST(Dataset, EveryBoxOfASampleWithMuchAndLittleScratch) {
  const auto path = counted_bytes();
  for (const auto dtype : {DType::kF32, DType::kI32, DType::kU8}) {
    const Dataset dataset(npy({{"x", path}}), {{"x", {4, 5}, dtype}}, 0);
    for (const std::size_t scratch : {kScratchBytes, std::size_t{3}}) {
      for (std::int64_t code = 0; code < 4 * 4 * 5 * 5; ++code) {
        const std::int64_t r0 = code % 4, rn = code / 4 % 4 + 1, c0 = code / 16 % 5, cn = code / 80 + 1;
        if (r0 + rn > 4 || c0 + cn > 5) continue;
        std::vector<std::int64_t> expected;
        for (std::int64_t s = 1; s < 4; ++s)
          for (std::int64_t r = r0; r < r0 + rn; ++r)
            for (std::int64_t c = c0; c < c0 + cn; ++c) expected.push_back(s * 20 + r * 5 + c);
        const Box box{{r0, c0}, {rn, cn}};
        std::vector<std::int64_t> got;
        const auto take = [&](const auto& values) { got.assign(values.begin(), values.end()); };
        if (dtype == DType::kF32) take(read<float>(dataset, "x", 1, 3, box, scratch + 1));
        if (dtype == DType::kI32) take(read<std::int32_t>(dataset, "x", 1, 3, box, scratch));
        if (dtype == DType::kU8) take(read<std::uint8_t>(dataset, "x", 1, 3, box, scratch));
        ASSERT_EQ(got, expected) << to_string(box);
      }
    }
  }
}

TEST(Dataset, ATrailingDimensionOfOneMayBeMissingOrTooMany) {
  const auto flat = write_npy<float>("flat.npy", "<f4", {2}, {1, 2});
  const auto column = write_npy<float>("column.npy", "<f4", {2, 1}, {1, 2});
  for (const auto& path : {flat, column})
    for (const Shape& wanted : {Shape{}, Shape{1}}) {
      const Dataset dataset(npy({{"y", path}}), {{"y", wanted, DType::kF32}}, 0);
      EXPECT_THAT(read<float>(dataset, "y", 0, 2, whole(wanted)), ElementsAre(1, 2));
    }
}

TEST(Dataset, AnotherSampleShapeNamesBoth) {
  EXPECT_TESSERA_ERROR(Dataset(npy({{"x", counted_bytes()}}), {{"x", {20}, DType::kF32}}, 0), ExitCode::kData,
                       "has the shape (6, 4, 5), samples of (4, 5), but 'x' of the model has samples of (20)");
}

TEST(Dataset, RowsOfDifferentNumberNameBothFiles) {
  const auto y = write_npy<float>("five.npy", "<f4", {5}, {1, 2, 3, 4, 5});
  EXPECT_TESSERA_ERROR(
      Dataset(npy({{"x", counted_bytes()}, {"y", y}}), {{"x", {4, 5}, DType::kF32}, {"y", {}, DType::kF32}}, 0),
      ExitCode::kData, "digits.yaml:21:15: 'y' has 5 rows");
}

TEST(Dataset, MissingFilesNameThePlaceInTheYaml) {
  EXPECT_TESSERA_ERROR(Dataset(npy({{"x", "/nowhere/x.npy"}}), {{"x", {4}, DType::kF32}}, 0), ExitCode::kData,
                       "digits.yaml:20:15: /nowhere/x.npy: No such file or directory");
}

TEST(Dataset, EmptyFilesAndSingleNumbersAreErrors) {
  EXPECT_TESSERA_ERROR(
      Dataset(npy({{"x", write_npy<float>("e.npy", "<f4", {0, 4}, {})}}), {{"x", {4}, DType::kF32}}, 0),
      ExitCode::kData, "has no rows");
  EXPECT_TESSERA_ERROR(Dataset(npy({{"x", write_npy<float>("n.npy", "<f4", {}, {1})}}), {{"x", {}, DType::kF32}}, 0),
                       ExitCode::kData, "its first dimension must count samples");
}

TEST(Dataset, UnknownKeysAreErrorsAndLabelsMayBeUnused) {
  const auto path = counted_bytes();
  const std::vector<Field> fields{{"image", {4, 5}, DType::kF32}};
  EXPECT_CONFIG_ERROR(Dataset(npy({{"imgae", path}}), fields, 0),
                      "digits.yaml:20:15: the model has no input 'imgae'; did you mean 'image'?");
  EXPECT_CONFIG_ERROR(Dataset(npy({{"y", path}}), fields, 0), "digits.yaml:19:10: the data lack 'image'");
  EXPECT_EQ(Dataset(npy({{"image", path}, {"y", "/nowhere"}, {"sample_weight", "/nowhere"}}), fields, 0).samples(), 6);
}

TEST(Dataset, ValuesThatDoNotFitNameFileRowAndValue) {
  const auto path = write_npy<std::int64_t>("labels.npy", "<i8", {3}, {1, 2, 5000000000});
  const Dataset dataset(npy({{"y", path}}), {{"y", {}, DType::kI32}}, 0);
  EXPECT_TESSERA_ERROR(read<std::int32_t>(dataset, "y", 1, 2, whole({})), ExitCode::kData,
                       "labels.npy: row 2 holds 5000000000, which does not fit int32 ('y' of the model)");
}

TEST(Dataset, NeitherFilesNorRandomIsAnError) {
  EXPECT_CONFIG_ERROR(Dataset(random(0), {{"x", {4}, DType::kF32}}, 0), "digits.yaml:19:10: data need `npy:");
}

TEST(RandomData, IsNormal) {
  const Dataset dataset(random(1000), {{"x", {100}, DType::kF32}}, 7);
  auto x = read<float>(dataset, "x", 0, 1000, whole({100}));
  double sum = 0, squares = 0, fourth = 0;
  for (const double v : x) sum += v, squares += v * v, fourth += v * v * v * v;
  const auto n = static_cast<double>(x.size());
  EXPECT_NEAR(sum / n, 0, 0.015);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_NEAR(fourth / n, 3, 0.1);
  std::sort(x.begin(), x.end());
  double worst = 0;  // Kolmogorov and Smirnov's distance
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::abs(std::erfc(-x[i] / std::sqrt(2.0)) / 2 - (static_cast<double>(i) + 0.5) / n));
  EXPECT_LT(worst, 1.95 / std::sqrt(n));
}

TEST(RandomData, AnyPartEqualsThePartOfTheWhole) {
  const Dataset dataset(random(20), {{"x", {7, 9}, DType::kF32}}, 7);
  const auto all = read<float>(dataset, "x", 0, 20, whole({7, 9}));
  const auto part = read<float>(dataset, "x", 3, 2, {{2, 4}, {3, 5}});
  std::size_t i = 0;
  for (std::size_t s = 3; s < 5; ++s)
    for (std::size_t r = 2; r < 5; ++r)
      for (std::size_t c = 4; c < 9; ++c) EXPECT_EQ(part[i++], all[s * 63 + r * 9 + c]);
}

TEST(RandomData, DependsOnSeedAndKey) {
  const std::vector<Field> fields{{"a", {64}, DType::kF32}, {"b", {64}, DType::kF32}};
  const Dataset dataset(random(4), fields, 7), other(random(4), fields, 8);
  const auto a = read<float>(dataset, "a", 0, 4, whole({64}));
  EXPECT_NE(a, read<float>(dataset, "b", 0, 4, whole({64})));
  EXPECT_NE(a, read<float>(other, "a", 0, 4, whole({64})));
}

TEST(RandomData, WholeNumbersAreUniformBelowTheBound) {
  const Dataset dataset(random(50000), {{"y", {}, DType::kI32, 10}}, 7);
  std::vector<int> count(10);
  for (const auto y : read<std::int32_t>(dataset, "y", 0, 50000, whole({}))) ++count.at(static_cast<std::size_t>(y));
  EXPECT_THAT(count, Each(testing::AllOf(testing::Gt(4600), testing::Lt(5400))));
}

TEST(RandomData, FloatLabelsMayBeWholeNumbers) {
  const Dataset dataset(random(100), {{"y", {1}, DType::kF32, 2}}, 7);
  EXPECT_THAT(read<float>(dataset, "y", 0, 100, whole({1})), Each(testing::AnyOf(0.0F, 1.0F)));
}

TEST(RandomData, WholeNumbersNeedABound) {
  EXPECT_TESSERA_ERROR(Dataset(random(3), {{"y", {}, DType::kI32}}, 7), ExitCode::kData, "need to know below what");
}

}  // namespace
}  // namespace tessera::data
