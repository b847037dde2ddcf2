#include "data/npy.h"

#include <fcntl.h>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/npy_writer.h"
#include "expect_error.h"

namespace tessera::data {
namespace {

#define EXPECT_DATA_ERROR(statement, text) EXPECT_TESSERA_ERROR(statement, ExitCode::kData, text)

NpyHeader parse(const std::string& bytes) {
  return parse_npy_header(std::as_bytes(std::span(bytes)), static_cast<std::int64_t>(bytes.size()), "x.npy");
}

TEST(Npy, ReadsElementsWhereTheyAreAskedFor) {
  const NpyFile file(write_npy<float>("a.npy", "<f4", {3, 2}, {0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file.header().shape, (Shape{3, 2}));
  EXPECT_EQ(file.header().type, NpyType::kF4);
  std::vector<float> out(3);
  file.read(2, 3, out.data());
  EXPECT_THAT(out, testing::ElementsAre(2, 3, 4));
}

TEST(Npy, EveryVersionAndType) {
  for (int version = 1; version <= 3; ++version) {
    for (const std::string code : {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"}) {
      const auto size = static_cast<std::size_t>(code[1] - '0');
      const auto header =
          parse(npy_header((size == 1 ? "|" : "<") + code, {2, 3}, "False", version) + std::string(6 * size, '\0'));
      EXPECT_EQ(header.shape, (Shape{2, 3}));
      EXPECT_EQ(size_of(header.type), static_cast<std::int64_t>(size));
      EXPECT_EQ(header.data_offset % 64, 0);
    }
  }
}

TEST(Npy, ShapesOfNumbersVectorsAndNothing) {
  EXPECT_EQ(parse(npy_header("<f4", {}) + std::string(4, '\0')).shape, Shape{});
  EXPECT_EQ(parse(npy_header("<f4", {3}) + std::string(12, '\0')).shape, (Shape{3}));
  EXPECT_EQ(parse(npy_header("<f4", {0, 5})).shape, (Shape{0, 5}));
}

TEST(Npy, FortranOrderIsRefusedButForVectors) {
  EXPECT_DATA_ERROR(parse(npy_header("<f4", {1, 2}, "True") + std::string(8, '\0')),
                    "x.npy is in Fortran order; save it with numpy.save(file, numpy.ascontiguousarray(array))");
  EXPECT_EQ(parse(npy_header("<f4", {2}, "True") + std::string(8, '\0')).shape, (Shape{2}));
}

TEST(Npy, OtherTypesAreRefusedWithWhatToDo) {
  EXPECT_DATA_ERROR(parse(npy_header(">f4", {2}) + std::string(8, '\0')), "x.npy is big-endian (>f4)");
  EXPECT_DATA_ERROR(parse(npy_header("|O", {2}) + std::string(16, '\0')), "x.npy holds Python objects");
  EXPECT_DATA_ERROR(parse(npy_header("<U8", {2}) + std::string(64, '\0')), "elements of type '<U8'");
  EXPECT_DATA_ERROR(parse(npy_header("<c8", {2}) + std::string(16, '\0')), "elements of type '<c8'");
  const std::string fields = "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}";
  EXPECT_DATA_ERROR(
      parse(std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(fields.size()) + '\0' + fields + "1234"),
      "x.npy holds a structure");
}

TEST(Npy, TooFewOrTooManyBytesAreRefused) {
  EXPECT_DATA_ERROR(parse(npy_header("<f4", {3}) + std::string(11, '\0')),
                    "x.npy should have 12 bytes of float32 (3) after its header, and has 11");
  EXPECT_DATA_ERROR(parse(npy_header("<f4", {3}) + std::string(13, '\0')), "and has 13");
}

TEST(Npy, EveryCutOffHeaderIsRefused) {
  const auto whole = npy_header("<f4", {3}) + std::string(12, '\0');
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_DATA_ERROR(parse(whole.substr(0, n)), "x.npy");
}

TEST(Npy, EveryDamagedByteOfTheHeaderIsReadOrRefused) {
  const auto whole = npy_header("<f4", {3}) + std::string(12, '\0');
  for (std::size_t n = 0; n < whole.size(); ++n) {
    for (int value = 0; value < 256; ++value) {
      auto damaged = whole;
      damaged[n] = static_cast<char>(value);
      try {
        (void)parse(damaged);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kData);
      }
    }
  }
}

TEST(Npy, HostileSizesAreRefused) {
  const Shape huge{std::int64_t{1} << 62, std::int64_t{1} << 62};
  EXPECT_DATA_ERROR(parse(npy_header("<f4", huge)), "more than 2^63");
  EXPECT_DATA_ERROR(parse(npy_header("<f4", {std::int64_t{1} << 61})), "more than 2^63");
  auto digits = npy_header("<f4", {1000000000000000000});
  digits.replace(digits.find("1000"), 1, "9999");
  EXPECT_DATA_ERROR(parse(digits), "x.npy");
  EXPECT_DATA_ERROR(parse(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14)), "is cut off");
  EXPECT_DATA_ERROR(parse(std::string("\x93NUMPY\x09\x00\x02\x00{}   ", 15)), "version 9");
}

TEST(Npy, MissingFilesAndFoldersAreNamed) {
  EXPECT_DATA_ERROR(NpyFile("/nowhere/x.npy"), "/nowhere/x.npy: No such file or directory");
  EXPECT_DATA_ERROR(NpyFile("/tmp"), "/tmp is not a file");
  EXPECT_DATA_ERROR(NpyFile(write_file("empty.npy", "")), "is not a .npy file");
}

// 32-bit offsets would read zeros or other rows; the file is sparse.
TEST(Npy, OffsetsBeyondTwoAndFourGiB) {
  const std::int64_t rows = 5 * (std::int64_t{1} << 20), row = 1024;
  const auto header = npy_header("|u1", {rows, row});
  const auto path = write_file("sparse.npy", header);
  const int fd = ::open(path.c_str(), O_WRONLY);
  ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(header.size()) + rows * row), 0);
  for (const std::int64_t at : {rows / 2 + 1, rows - 1}) {
    const auto mark = static_cast<char>(at % 100 + 1);
    ASSERT_EQ(::pwrite(fd, &mark, 1, static_cast<off_t>(header.size()) + at * row), 1);
  }
  ::close(fd);
  const NpyFile file(path);
  for (const std::int64_t at : {rows / 2 + 1, rows - 1}) {
    std::uint8_t value = 0;
    file.read(at * row, 1, &value);
    EXPECT_EQ(value, at % 100 + 1);
  }
  ::unlink(path.c_str());
}

TEST(Npy, AFileThatIsShortenedWhileItIsReadIsAnError) {
  const auto path = write_npy<float>("short.npy", "<f4", {4}, {0, 1, 2, 3});
  const NpyFile file(path);
  ASSERT_EQ(::truncate(path.c_str(), file.header().data_offset + 8), 0);
  std::vector<float> out(4);
  EXPECT_DATA_ERROR(file.read(0, 4, out.data()), "it has been shortened");
}

}  // namespace
}  // namespace tessera::data
