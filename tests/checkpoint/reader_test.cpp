#include "checkpoint/reader.h"

#include <fcntl.h>
#include <numeric>
#include <unistd.h>

#include <gtest/gtest.h>

#include "checkpoint/golden.h"
#include "core/error_text.h"
#include "support/temporary_folder.h"

namespace tessera::checkpoint {
namespace {

class Reader : public testing::Test {
 protected:
  Reader() { write_file(path_, golden()); }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("golden.safetensors");
};

TEST_F(Reader, KnowsNamesTypesAndShapes) {
  const SafetensorsReader reader(path_);
  EXPECT_EQ(reader.tensors().size(), 3U);
  EXPECT_EQ(reader.at("a").dtype, DType::kF32);
  EXPECT_EQ(reader.at("a").shape, (Shape{2, 3}));
  EXPECT_EQ(reader.at("b").shape, Shape{});
  EXPECT_EQ(reader.metadata().at("format"), "pt");
}

TEST_F(Reader, ReadsBoxes) {
  const SafetensorsReader reader(path_);
  std::vector<float> box(4);
  reader.read_box("a", {{0, 1}, {2, 2}}, box.data(), DType::kF32);
  EXPECT_EQ(box, (std::vector<float>{1, 2, 4, 5}));
  std::vector<double> row(3);
  reader.read_box("a", {{1, 0}, {1, 3}}, row.data(), DType::kF64);
  EXPECT_EQ(row, (std::vector<double>{3, 4, 5}));
  std::int64_t scalar = 0;
  reader.read_box("b", {{}, {}}, &scalar, DType::kI64);
  EXPECT_EQ(scalar, 7);
  std::vector<float> flags(2);
  reader.read_box("c", {{0}, {2}}, flags.data(), DType::kF32);
  EXPECT_EQ(flags, (std::vector<float>{1, 0}));
  reader.read_box("a", {{0, 1}, {0, 2}}, nullptr, DType::kF32);
}

TEST_F(Reader, Refusals) {
  const SafetensorsReader reader(path_);
  float value = 0;
  EXPECT_EQ(error_text([&] {
              reader.read_box("aa", {{}, {}}, &value, DType::kF32);
            }),
            path_ + ": has no tensor 'aa'; did you mean 'a'?");
  EXPECT_EQ(error_text([&] {
              reader.read_box("a", {{0, 0}, {1, 1}}, &value, DType::kI32);
            }),
            path_ + ": tensor 'a' is float32 and cannot be read as int32");
  EXPECT_EQ(error_text([&] {
              reader.require({{"a", DType::kF32, {3, 2}}});
            }),
            path_ + ": tensor 'a' is (2, 3), the model's is (3, 2)");
  EXPECT_NE(error_text([&] { reader.read_box("a", {{1, 2}, {1, 2}}, &value, DType::kF32); }), "");
  EXPECT_EQ(reader.require({{"a", DType::kF32, {2, 3}}}), (std::vector<std::string>{"b", "c"}));
}

TEST_F(Reader, EveryBoxOfACubeIsRight) {
  const Shape shape{3, 4, 5};
  std::vector<std::int32_t> values(60);
  std::iota(values.begin(), values.end(), 0);
  write_file(path_, with_length(R"({"t":{"dtype":"I32","shape":[3,4,5],"data_offsets":[0,240]}})") +
                        std::string(reinterpret_cast<const char*>(values.data()), 240));
  const SafetensorsReader reader(path_);
  for (std::int64_t a = 0; a < 3; ++a)
    for (std::int64_t b = 0; b < 4; ++b)
      for (std::int64_t c = 0; c < 5; ++c)
        for (std::int64_t p = a + 1; p <= 3; ++p)
          for (std::int64_t q = b + 1; q <= 4; ++q)
            for (std::int64_t r = c + 1; r <= 5; ++r) {
              const Box box{{a, b, c}, {p - a, q - b, r - c}};
              std::vector<std::int64_t> expected, got(static_cast<std::size_t>(elements(box.size)));
              for (auto i = a; i < p; ++i)
                for (auto j = b; j < q; ++j)
                  for (auto k = c; k < r; ++k) expected.push_back(i * 20 + j * 5 + k);
              reader.read_box("t", box, got.data(), DType::kI64);
              ASSERT_EQ(got, expected) << to_string(box);
            }
}

TEST_F(Reader, LongRowsNeedSeveralWindows) {
  const std::int64_t columns = 700'000;
  std::vector<float> values(static_cast<std::size_t>(2 * columns));
  std::iota(values.begin(), values.end(), 0.0F);
  const auto bytes = values.size() * 4;
  write_file(path_, with_length(fmt::format(R"({{"t":{{"dtype":"F32","shape":[2,{}],"data_offsets":[0,{}]}}}})",
                                            columns, bytes)) +
                        std::string(reinterpret_cast<const char*>(values.data()), bytes));
  const SafetensorsReader reader(path_);
  std::vector<double> got(static_cast<std::size_t>(2 * (columns - 2)));
  reader.read_box("t", {{0, 1}, {2, columns - 2}}, got.data(), DType::kF64);
  EXPECT_EQ(got.front(), 1.0);
  EXPECT_EQ(got[static_cast<std::size_t>(columns - 3)], static_cast<double>(columns - 2));
  EXPECT_EQ(got.back(), static_cast<double>(2 * columns - 2));
}

TEST_F(Reader, OffsetsBeyondFourGigabytes) {
  const std::int64_t rows = 3, columns = (std::int64_t{1} << 30) + 5;
  const auto bytes = rows * columns * 4;
  const auto header =
      with_length(fmt::format(R"({{"t":{{"dtype":"F32","shape":[3,{}],"data_offsets":[0,{}]}}}})", columns, bytes));
  write_file(path_, header);
  const int file = ::open(path_.c_str(), O_WRONLY);
  const auto start = static_cast<std::int64_t>(header.size());
  ASSERT_EQ(::ftruncate(file, start + bytes), 0);
  const std::vector<float> marks{1.5F, 2.5F};
  ASSERT_EQ(::pwrite(file, marks.data(), 8, start + (2 * columns + columns - 2) * 4), 8);
  ::close(file);
  const SafetensorsReader reader(path_);
  std::vector<float> got(6);
  reader.read_box("t", {{0, columns - 2}, {3, 2}}, got.data(), DType::kF32);
  EXPECT_EQ(got, (std::vector<float>{0, 0, 0, 0, 1.5F, 2.5F}));
}

}  // namespace
}  // namespace tessera::checkpoint
