#include "checkpoint/writer.h"

#include <barrier>
#include <csignal>
#include <numeric>
#include <sys/resource.h>
#include <thread>

#include <gtest/gtest.h>

#include "checkpoint/golden.h"
#include "checkpoint/reader.h"
#include "core/error_text.h"
#include "support/temporary_folder.h"

namespace tessera::checkpoint {
namespace {

const std::vector<TensorSpec> kGoldenTensors{
    {"a", DType::kF32, {2, 3}}, {"b", DType::kI32, {}}, {"c", DType::kBool, {2}}};

/// The sum over threads.
class ThreadRanks {
 public:
  explicit ThreadRanks(int count) : barrier_(count) {}

  Ranks rank(std::int64_t index) {
    return {index, [this](std::int64_t value) {
              sum_ += value;
              barrier_.arrive_and_wait();
              const auto result = sum_.load();
              barrier_.arrive_and_wait();
              sum_ -= value;
              barrier_.arrive_and_wait();
              return result;
            }};
  }

 private:
  std::barrier<> barrier_;
  std::atomic<std::int64_t> sum_{0};
};

/// Runs on `count` threads; the sentence of each rank's error.
std::vector<std::string> on_ranks(int count, const std::function<void(const Ranks&)>& call) {
  ThreadRanks ranks(count);
  std::vector<std::string> sentences(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r)
    threads.emplace_back([&, r] { sentences[static_cast<std::size_t>(r)] = error_text([&] { call(ranks.rank(r)); }); });
  for (auto& thread : threads) thread.join();
  return sentences;
}

/// Files may not grow beyond `bytes` as long as it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

class Writer : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string path_ = folder_.file("out.safetensors");
};

void write_golden(SafetensorsWriter& writer) {
  const std::vector<float> a{0, 1, 2, 3, 4, 5};
  const std::int32_t b = 7;
  const std::vector<std::uint8_t> c{1, 0};
  writer.write_box("c", {{0}, {2}}, c.data());
  writer.write_box("a", {{0, 0}, {2, 3}}, a.data());
  writer.write_box("b", {{}, {}}, &b);
}

TEST_F(Writer, WritesTheGoldenFileByteForByte) {
  SafetensorsWriter writer(path_, kGoldenTensors, {});
  write_golden(writer);
  writer.finish();
  EXPECT_EQ(read_file(path_), golden());
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
}

TEST_F(Writer, RanksWriteWhatTheyOwnAndAnyMeshReadsIt) {
  const Shape shape{8, 12};
  const mesh::DeviceMesh mesh({2, 2}, {"batch", "model"}, 4);
  const std::vector<mesh::Layout> layouts{{{{}, {1}}, {}}, {{{0}, {1}}, {}}, {{{0, 1}, {}}, {}}, mesh::replicated(2)};
  for (const auto& layout : layouts) {
    const auto sentences = on_ranks(4, [&](const Ranks& ranks) {
      SafetensorsWriter writer(path_, {{"w", DType::kF32, shape}}, ranks);
      for (const auto& box : boxes_to_write(layout, mesh, mesh.coordinates(ranks.rank), shape)) {
        std::vector<float> values;
        for (std::int64_t i = 0; i < box.size[0]; ++i)
          for (std::int64_t j = 0; j < box.size[1]; ++j)
            values.push_back(static_cast<float>((box.start[0] + i) * 12 + box.start[1] + j));
        writer.write_box("w", box, values.data());
      }
      writer.finish();
    });
    EXPECT_EQ(sentences, std::vector<std::string>(4));
    std::vector<float> expected(96), whole(96);
    std::iota(expected.begin(), expected.end(), 0.0F);
    SafetensorsReader(path_).read_box("w", {{0, 0}, shape}, whole.data(), DType::kF32);
    EXPECT_EQ(whole, expected) << to_string(layout, mesh);
  }
}

TEST_F(Writer, AFullDiskIsASentenceAndLeavesTheOldFile) {
  write_file(path_, "the old one");
  std::string sentence;
  {
    const FileSizeLimit limit(4096);
    sentence = error_text([&] { SafetensorsWriter(path_, {{"w", DType::kF32, {1 << 20}}}, {}); });
  }
  EXPECT_EQ(sentence, path_ + ".partial: has no room on its disk: File too large");
  EXPECT_EQ(read_file(path_), "the old one");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
}

TEST_F(Writer, AFolderThatIsNotThereFailsOnAllRanks) {
  const auto path = folder_.file("none/out.safetensors");
  const auto sentences = on_ranks(3, [&](const Ranks& ranks) { SafetensorsWriter(path, kGoldenTensors, ranks); });
  EXPECT_EQ(sentences[0], path + ".partial: cannot be opened to write: No such file or directory");
  const auto other = path + ": was not written: 1 other rank failed; what was there is unchanged";
  EXPECT_EQ(sentences[1], other);
  EXPECT_EQ(sentences[2], other);
}

TEST_F(Writer, WhatIsNotFinishedIsRemoved) {
  { SafetensorsWriter writer(path_, kGoldenTensors, {}); }
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Writer, AMissingPartIsFound) {
  SafetensorsWriter writer(path_, kGoldenTensors, {});
  const std::int32_t b = 7;
  writer.write_box("b", {{}, {}}, &b);
  EXPECT_NE(error_text([&] { writer.finish(); }).find("4 of 30 bytes were written"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace tessera::checkpoint
