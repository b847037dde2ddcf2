// What the verbs leave in output_dir/name.
#include <filesystem>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/job.h"
#include "support/temporary_folder.h"

namespace tessera::trainer {
namespace {

constexpr auto kConfig =
    "{version: 1, name: tiny, model: {inputs: {x: {shape: [8]}}, layers: [{Dense: {name: dense, units: 4}}]}, "
    "compile: {optimizer: sgd, loss: mse, metrics: [mae]}, "
    "data: {train: {random: {samples: 44}}, validation: {random: {samples: 20}}}, fit: {epochs: 2, batch_size: 16}}";

class RunFolder : public ::testing::Test {
 protected:
  RunFolder() { write_file(folder_.file("tiny.yaml"), kConfig); }

  /// On two ranks, in the folder.
  void run(const std::string& verb) {
    const auto ended = test::run_job("cd " + folder_.file("") +
                                     " && OMP_NUM_THREADS=1 mpirun --allow-run-as-root --oversubscribe -np 2 " +
                                     TESSERA_TRAINER + " " + verb + " tiny.yaml");
    ASSERT_EQ(ended.code, 0) << ended.output;
  }
  std::vector<nlohmann::json> events(const std::string& kind) const {
    std::vector<nlohmann::json> found;
    std::istringstream lines(read_file(path("metrics.jsonl")));
    for (std::string line; std::getline(lines, line);)
      if (auto event = nlohmann::json::parse(line); event["event"] == kind) found.push_back(std::move(event));
    return found;
  }
  std::string path(const std::string& name) const { return folder_.file("runs/tiny/" + name); }

  TemporaryFolder folder_;
};

TEST_F(RunFolder, GetsAnEndOfEachVerbWithItsStepsAndCollectives) {
  run("train");
  run("evaluate");
  run("predict");
  EXPECT_EQ(events("step").size(), 6U);
  ASSERT_EQ(events("evaluate").size(), 3U);
  EXPECT_EQ(events("evaluate")[2]["on"], "validation");
  EXPECT_EQ(events("evaluate")[2]["logs"], events("evaluate")[1]["logs"]);
  const auto ends = events("end");
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends[0]["steps"], 6);
  EXPECT_EQ(ends[1]["steps"], 2);
  EXPECT_EQ(ends[2]["steps"], 2);
  // Evaluating sums the loss of each batch and, once, the metric; predicting sums nothing.
  EXPECT_EQ(ends[1]["collectives"]["all_reduce"]["count"], 3);
  EXPECT_EQ(ends[2]["collectives"]["all_reduce"]["count"], 0);
}

TEST_F(RunFolder, OfAFreshRunHasNothingOfTheFormerOne) {
  run("train");
  run("predict");
  EXPECT_TRUE(std::filesystem::exists(path("predict/dense.npy")));
  write_file(path("final.safetensors.partial"), "of a run that was killed");
  run("train");
  EXPECT_FALSE(std::filesystem::exists(path("predict")));
  EXPECT_FALSE(std::filesystem::exists(path("final.safetensors.partial")));
  EXPECT_TRUE(std::filesystem::exists(path("final.safetensors")));
  EXPECT_EQ(events("end").size(), 1U);
}

}  // namespace
}  // namespace tessera::trainer
