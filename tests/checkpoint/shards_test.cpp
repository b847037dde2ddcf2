#include "checkpoint/shards.h"

#include <array>
#include <filesystem>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/file.h"
#include "checkpoint/shard_writer.h"
#include "core/checksum.h"
#include "core/error_text.h"
#include "mesh/layout.h"
#include "support/temporary_folder.h"

namespace tessera::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<TensorSpec> kTensors{{"b", DType::kF32, {6, 10}}, {"a", DType::kF64, {4}}, {"c", DType::kF32, {32}}};

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  std::iota(x.begin(), x.end(), 0.5F);
  return x;
}

TEST(Shards, TensorsStayWholeAndFilesBelowTheirSize) {
  const auto names = [](const std::vector<ShardFile>& files) {
    std::vector<std::string> list;
    for (const auto& file : files) {
      list.push_back(file.name);
      for (const auto& tensor : file.tensors) list.push_back(tensor.name);
    }
    return list;
  };
  EXPECT_THAT(names(split_into_files(kTensors, "model")),
              ElementsAre("model-00001-of-00001.safetensors", "a", "b", "c"));
  EXPECT_THAT(names(split_into_files(kTensors, "m", 100)),
              ElementsAre("m-00001-of-00003.safetensors", "a", "m-00002-of-00003.safetensors", "b",
                          "m-00003-of-00003.safetensors", "c"));
  EXPECT_EQ(split_into_files({}, "m").size(), 1U);
}

/// Four ranks write their shares of everything, each apart.
void write_by_ranks(const std::string& folder, const std::vector<ShardFile>& files,
                    std::map<std::string, std::uint64_t>& sums) {
  const mesh::DeviceMesh mesh({2, 2}, {"batch", "model"}, 4);
  const std::map<std::string, mesh::Layout> layouts{{"a", {{{}}, {}}}, {"b", {{{}, {1}}, {}}}, {"c", {{{1, 0}}, {}}}};
  for (std::int64_t rank = 3; rank >= 0; --rank) {
    ShardWriter writer(folder, files, rank == 0);
    for (const auto& tensor : kTensors) {
      const auto& layout = layouts.at(tensor.name);
      const auto box = mesh::owned(layout, mesh, mesh.coordinates(rank), tensor.shape).front();
      const auto share = mesh::share_of_replica(layout, mesh, mesh.coordinates(rank), tensor.shape);
      EXPECT_LE(share.count, (elements(tensor.shape) + 3) / 4);
      std::vector<float> f;
      std::vector<double> d;
      const auto strides = strides_of(tensor.shape);
      for (auto e = share.first; e < share.first + share.count; ++e) {
        std::int64_t place = 0, rest = e;
        for (std::size_t k = box.size.size(); k-- > 0;) {
          place += (box.start[k] + rest % box.size[k]) * strides[k];
          rest /= box.size[k];
        }
        f.push_back(static_cast<float>(place) + 0.5F);
        d.push_back(static_cast<double>(place) + 0.5);
      }
      writer.write(tensor.name, box, share.first, share.count,
                   tensor.dtype == DType::kF64 ? static_cast<const void*>(d.data()) : f.data());
    }
    writer.close();
    for (const auto& [name, sum] : writer.checksums()) sums[name] += sum;
  }
}

TEST(Shards, RanksWriteOneFileTogetherWithoutAWord) {
  const TemporaryFolder folder;
  for (const std::int64_t most : {std::int64_t{100}, kShardBytes}) {
    const auto files = split_into_files(kTensors, "model", most);
    std::map<std::string, std::uint64_t> sums;
    write_by_ranks(folder.path(), files, sums);
    write_text_file(folder.path() + "/" + index_name("model"), index_json(files));
    const TensorFiles read(folder.path());
    EXPECT_EQ(read.tensors().size(), 3U);
    for (const auto& tensor : kTensors) {
      const auto count = elements(tensor.shape);
      std::vector<float> values(static_cast<std::size_t>(count));
      read.read_box(tensor.name, {Shape(tensor.shape.size(), 0), tensor.shape}, values.data(), DType::kF32);
      EXPECT_EQ(values, numbers(count)) << tensor.name;
      std::vector<double> stored(values.size());
      read.read_elements(tensor.name, 0, count, stored.data());
      EXPECT_EQ(checksum(stored.data(), count, size_of(tensor.dtype), 0), sums[tensor.name]) << tensor.name;
    }
    for (const auto& file : files) std::filesystem::remove(folder.path() + "/" + file.name);
  }
}

TEST(Shards, OffsetsGoBeyondFourGiB) {
  const TemporaryFolder folder;
  constexpr std::int64_t kRows = std::int64_t{5} << 20, kCols = 1 << 10;
  const auto files = split_into_files({{"big", DType::kU8, {kRows, kCols}}, {"small", DType::kF32, {4}}}, "model");
  ASSERT_EQ(files.size(), 2U);
  std::vector<unsigned char> row(kCols);
  std::iota(row.begin(), row.end(), static_cast<unsigned char>(1));
  // A rank that isn't the first reserves no blocks: the file has holes.
  ShardWriter writer(folder.path(), files, false);
  const std::array<std::int64_t, 3> rows{0, (std::int64_t{1} << 31) / kCols + 3, kRows - 1};
  for (const auto r : rows) writer.write("big", {{0, 0}, {kRows, kCols}}, r * kCols, kCols, row.data());
  writer.close();
  std::map<std::string, StoredTensor> placed;
  const auto header = make_header(files[0].tensors, placed);
  auto file = File::open_to_write(folder.file(files[0].name));
  file.write(header.data(), static_cast<std::int64_t>(header.size()), 0);
  file.sync_and_close();
  const TensorFiles read(folder.file(files[0].name));
  for (const auto r : rows) {
    std::vector<unsigned char> back(kCols);
    read.read_box("big", {{r, 0}, {1, kCols}}, back.data(), DType::kU8);
    EXPECT_EQ(back, row) << r;
  }
}

TEST(Shards, AnIndexIsDoubted) {
  const TemporaryFolder folder;
  const auto index = folder.path() + "/" + index_name("model");
  const auto sentence = [&](const std::string& text) {
    write_text_file(index, text);
    return error_text([&] { TensorFiles files(folder.path()); });
  };
  EXPECT_THAT(sentence("{"), HasSubstr("is no index"));
  EXPECT_THAT(sentence(R"({"weight_map": []})"), HasSubstr("is no index"));
  EXPECT_THAT(sentence(R"({"weight_map": {"w": 3}})"), HasSubstr("what it says of 'w' is no file's name"));
  EXPECT_THAT(sentence(R"({"weight_map": {"w": "../../etc/passwd"}})"), HasSubstr("no file's name"));
  EXPECT_THAT(sentence("{\"weight_map\": {\"w\": " + std::string(100000, '[') + std::string(100000, ']') + "}}"),
              HasSubstr("is nested deeper than 8 levels"));
  EXPECT_THAT(sentence(R"({"weight_map": {"w": "gone.safetensors"}})"),
              HasSubstr("gone.safetensors: cannot be opened"));
  std::map<std::string, std::uint64_t> sums;
  write_by_ranks(folder.path(), split_into_files(kTensors, "model"), sums);
  EXPECT_THAT(sentence(R"({"weight_map": {"w": "model-00001-of-00001.safetensors"}})"), HasSubstr("has no tensor 'w'"));
}

TEST(Shards, AWriterMayBeSlow) {
  const TemporaryFolder folder;
  const std::vector<TensorSpec> tensors{{"w", DType::kF32, {3 << 20}}};
  const auto x = numbers(3 << 20);
  const auto start = std::chrono::steady_clock::now();
  ShardWriter writer(folder.path(), split_into_files(tensors, "model"), true, 40e6);
  writer.write("w", {{0}, {3 << 20}}, 0, 3 << 20, x.data());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took.count(), 0.2);  // 8 of 12 MB before the last piece begins
}

}  // namespace
}  // namespace tessera::checkpoint
