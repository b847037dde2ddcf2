#include "train/npy_writer.h"

#include <filesystem>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "data/npy.h"

namespace tessera::train {
namespace {

class NpyWriterTest : public testing::Test {
 protected:
  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "npy_writer_test";
  std::string file_ = (folder_ / "deep" / "y.npy").string();

  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
};

TEST_F(NpyWriterTest, BoxesOfAllRanksMakeTheWholeFile) {
  const Shape shape{4, 3, 4};
  NpyWriter::create(file_, shape, DType::kF32);
  for (const std::int64_t column : {0, 2}) {
    NpyWriter writer(file_, shape, DType::kF32);
    const Box box{{1, 0, column}, {3, 3, 2}};
    std::vector<float> values;
    for (std::int64_t i = 1; i < 4; ++i)
      for (std::int64_t j = 0; j < 3; ++j)
        for (std::int64_t k = 0; k < 2; ++k) values.push_back(static_cast<float>((i * 3 + j) * 4 + column + k));
    writer.write(box, values.data());
    writer.sync();
  }
  EXPECT_FALSE(std::filesystem::exists(file_));
  NpyWriter::commit(file_);

  const data::NpyFile read(file_);
  EXPECT_EQ(read.header().shape, shape);
  std::vector<float> found(48), expected(48);
  read.read(0, 48, found.data());
  std::iota(expected.begin(), expected.end(), 0.0F);
  std::fill_n(expected.begin(), 12, 0.0F);  // row 0 was not written
  EXPECT_EQ(found, expected);
}

TEST_F(NpyWriterTest, AFolderThatCantBeMadeIsNamed) {
  try {
    NpyWriter::create("/proc/no/y.npy", {1}, DType::kF32);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_NE(std::string(error.what()).find("/proc/no/y.npy"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::train
