#include "checkpoint/folders.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/file.h"
#include "checkpoint/shard_writer.h"
#include "core/error_text.h"
#include "support/temporary_folder.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Manifest manifest(std::int64_t step) {
  return {.version = "1.0",
          .config = "name: \"x\"\n",
          .device = "cpu",
          .mesh = "(batch 2)",
          .ranks = 2,
          .order = {{"seed", "3"}},
          .tuning = "line\nline\n",
          .position =
              {.steps = step, .epoch = 2, .step_in_epoch = 1, .skipped = 1, .weighted_loss = 0.1 + 0.2, .rows = 1e15},
          .tensors = {{"w", {"F32 (2, 3)", ~std::uint64_t{0}}}}};
}

const std::vector<ShardFile>& files(const std::string& stem) {
  static const auto kModel = split_into_files({{"w", DType::kF32, {2, 3}}}, "model");
  static const auto kOptimizer = split_into_files({}, "optimizer");
  return stem == "model" ? kModel : kOptimizer;
}

void save(const std::string& parent, std::int64_t step) {
  const auto folder = partial_folder_of_step(parent, step);
  fs::create_directories(folder);
  for (const auto* stem : {"model", "optimizer"}) ShardWriter(folder, files(stem), true).close();
  finish_folder(parent, manifest(step), {index_name("model"), index_name("optimizer")},
                {index_json(files("model")), index_json(files("optimizer"))});
}

std::vector<std::int64_t> steps(const std::string& parent) {
  std::vector<std::int64_t> list;
  for (const auto& folder : finished_folders(parent)) list.push_back(folder.step);
  return list;
}

TEST(Folders, AManifestReadsBack) {
  const TemporaryFolder folder;
  save(folder.path(), 1200);
  EXPECT_EQ(read_manifest(folder.path() + "/step_000001200"), manifest(1200));
}

TEST(Folders, OnlyFinishedOnesCountAndTheOldestGo) {
  const TemporaryFolder folder;
  EXPECT_TRUE(finished_folders(folder.path() + "/none").empty());
  for (const std::int64_t step : {5, 20, 10}) save(folder.path(), step);
  fs::create_directories(partial_folder_of_step(folder.path(), 30));
  fs::create_directories(folder_of_step(folder.path(), 40));
  fs::create_directories(folder.path() + "/step_mine");
  EXPECT_EQ(steps(folder.path()), (std::vector<std::int64_t>{20, 10, 5}));
  remove_unfinished(folder.path());
  EXPECT_FALSE(fs::exists(partial_folder_of_step(folder.path(), 30)));
  EXPECT_FALSE(fs::exists(folder_of_step(folder.path(), 40)));
  EXPECT_TRUE(fs::exists(folder.path() + "/step_mine")) << "not ours";
  remove_oldest(folder.path(), 2);
  EXPECT_EQ(steps(folder.path()), (std::vector<std::int64_t>{20, 10}));
  remove_oldest(folder.path(), 5);
  EXPECT_EQ(steps(folder.path()).size(), 2U);
}

TEST(Folders, ATensorThatWasNotWrittenIsFoundBeforeItIsCalledDone) {
  const TemporaryFolder folder;
  const auto partial = partial_folder_of_step(folder.path(), 3);
  fs::create_directories(partial);
  for (const auto* stem : {"model", "optimizer"}) ShardWriter(partial, files(stem), true).close();
  const auto text = error_text([&] {
    finish_folder(folder.path(), manifest(3), {index_name("model"), index_name("optimizer")},
                  {index_json(files("optimizer")), index_json(files("optimizer"))});
  });
  EXPECT_THAT(text, HasSubstr("has 0 tensors, its manifest names 1"));
  EXPECT_TRUE(finished_folders(folder.path()).empty());
}

TEST(Folders, ADamagedManifestIsNotBelieved) {
  const TemporaryFolder folder;
  save(folder.path(), 7);
  const auto path = folder_of_step(folder.path(), 7);
  auto text = read_text_file(path + "/manifest.json");
  text[text.find("F32") + 1] = '6';
  write_text_file(path + "/manifest.json", text);
  EXPECT_THAT(error_text([&] { read_manifest(path); }), HasSubstr("is not what DONE beside it says"));
  fs::remove(path + "/DONE");
  EXPECT_THAT(error_text([&] { read_manifest(path); }), HasSubstr("has no DONE"));
}

TEST(Folders, AManifestWithoutAMemberIsRefused) {
  const auto whole = to_json(manifest(1));
  EXPECT_EQ(parse_manifest(whole, "m"), manifest(1));
  for (const auto* key : {"format", "position", "steps", "order", "tensors", "checksum", "ranks"}) {
    auto text = whole;
    text.replace(text.find('"' + std::string(key) + '"') + 1, 1, "?");
    EXPECT_THAT(error_text([&] { parse_manifest(text, "m"); }), HasSubstr("m: ")) << key;
  }
  for (const auto* text : {"", "[]", "{}", R"({"format": 2})", R"({"format": -1})"})
    EXPECT_NE(error_text([&] { parse_manifest(text, "m"); }), "") << text;
}

}  // namespace
}  // namespace tessera::checkpoint
