#include "partition/hardware.h"

#include <cstdio>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tessera::partition {
namespace {

using testing::HasSubstr;

std::string sentence_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfig);
    return error.what();
  }
  return "no error";
}

std::string written(const std::string& text) {
  auto file = testing::TempDir() + "hardware_test.json";
  std::ofstream(file) << text;
  return file;
}

TEST(Hardware, EveryProfileSurvivesAFile) {
  for (const auto* name : {"cpu", "a100-80", "h100", "h200", "b200"}) {
    const auto profile = load_hardware(name);
    EXPECT_EQ(profile.name, name);
    EXPECT_GT(profile.local.bytes_per_s, profile.remote.bytes_per_s);
    EXPECT_EQ(to_json(load_hardware(written(to_json(profile)))), to_json(profile));
  }
}

TEST(Hardware, HowNcclRunsIsAFilesToSay) {
  auto profile = load_hardware("h200");
  EXPECT_FALSE(profile.nccl_windows);
  profile.nccl_windows = true;
  profile.nccl_max_blocks = 16;
  const auto read = load_hardware(written(to_json(profile)));
  EXPECT_TRUE(read.nccl_windows);
  EXPECT_EQ(read.nccl_max_blocks, 16);
}

TEST(Hardware, UnknownNameSuggestsTheNearest) {
  EXPECT_THAT(sentence_of([] { load_hardware("h10"); }), HasSubstr("did you mean 'h100'?"));
}

TEST(Hardware, MistakesInAFileNameTheirKey) {
  auto text = to_json(load_hardware("cpu"));
  EXPECT_THAT(sentence_of([] { load_hardware(written("{")); }), HasSubstr("not a JSON object"));
  EXPECT_THAT(sentence_of([] { load_hardware(written("{\"name\": \"x\"}")); }), HasSubstr("'flops_f32' is missing"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    auto copy = text;
    copy.replace(copy.find(from), from.size(), to);
    return written(copy);
  };
  EXPECT_THAT(sentence_of([&] { load_hardware(changed("\"kernel_us\": 5", "\"kernel_us\": -5")); }),
              HasSubstr("0 or more"));
  EXPECT_THAT(sentence_of([&] { load_hardware(changed("\"devices_per_node\": 8", "\"devices_per_node\": 0.5")); }),
              HasSubstr("not a whole number"));
  EXPECT_THAT(sentence_of([&] { load_hardware(changed("\"name\"", "\"nam\": 1, \"name\"")); }),
              HasSubstr("unknown key 'nam'; did you mean 'name'?"));
}

}  // namespace
}  // namespace tessera::partition
