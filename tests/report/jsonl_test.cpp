#include "report/jsonl.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "core/error.h"

namespace tessera::report {
namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class Jsonl : public testing::Test {
 protected:
  std::string file_ = testing::TempDir() + "metrics_test.jsonl";
  void TearDown() override { std::filesystem::remove(file_); }
};

TEST_F(Jsonl, ALineIsInTheFileWhenTheCallReturns) {
  JsonlWriter writer(file_);
  writer.step({.epoch = 0,
               .step = 1,
               .step_in_epoch = 1,
               .loss = 0.1,
               .learning_rate = 0.001,
               .step_ms = 2.5,
               .samples_per_s = 1000});
  EXPECT_EQ(text_of(file_),
            R"({"event":"step","epoch":0,"step":1,"loss":0.1,"learning_rate":0.001,"step_ms":2.5,"samples_per_s":1000})"
            "\n");
}

TEST_F(Jsonl, FloatsHaveAllDigitsAndWhatIsNotFiniteIsText) {
  JsonlWriter writer(file_);
  writer.epoch(2, {{"loss", 1.0 / 3}, {"mae", std::nan("")}, {"val_loss", INFINITY}});
  EXPECT_EQ(text_of(file_),
            R"({"event":"epoch","epoch":2,"logs":{"loss":0.3333333333333333,"mae":"nan","val_loss":"inf"}})"
            "\n");
}

TEST_F(Jsonl, TheEndNamesPoolsAndCollectives) {
  JsonlWriter writer(file_);
  train::EndEvent event;
  event.steps = 3;
  event.pools = {{"state", 10}};
  event.interrupted = true;
  event.collectives.all_reduce = {2, 64};
  writer.end(event);
  const auto text = text_of(file_);
  EXPECT_NE(text.find(R"("pools":{"state":10})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("collectives":{"all_reduce":{"count":2,"bytes":64})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("interrupted":true)"), std::string::npos) << text;
}

TEST_F(Jsonl, GoesOnAtTheEndOfAFileOrReplacesIt) {
  JsonlWriter(file_).warning("one");
  JsonlWriter(file_, true).warning("two");
  EXPECT_EQ(text_of(file_), "{\"event\":\"warning\",\"text\":\"one\"}\n{\"event\":\"warning\",\"text\":\"two\"}\n");
  JsonlWriter(file_).warning("three");
  EXPECT_EQ(text_of(file_), "{\"event\":\"warning\",\"text\":\"three\"}\n");
}

TEST_F(Jsonl, AFileThatCantBeWrittenIsAnErrorThatNamesIt) {
  try {
    JsonlWriter writer("/proc/no/metrics.jsonl");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_NE(std::string(error.what()).find("/proc/no/metrics.jsonl"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::report
