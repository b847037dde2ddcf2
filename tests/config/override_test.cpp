#include <gtest/gtest.h>

#include "config/overrides.h"
#include "config/spec.h"
#include "core/error_text.h"

namespace tessera::config {
namespace {

constexpr auto kModel = R"(
model:
  inputs: {x: {shape: [4]}}
  layers:
    - Dense: {units: 2}
distribution:
  ModelParallel:
    mesh: {shape: [2], axis_names: [model]}
    layout_map: {'dense.*/kernel': [null, model]}
compile: {optimizer: adam, loss: mse}
fit: {epochs: 3}
)";

Spec with(const std::string& text) { return parse_spec(kModel, "c.yaml", {text}); }
std::string override_error(const std::string& text) {
  return error_text([&] { with(text); });
}

TEST(Override, SetsWhatIsThere) { EXPECT_EQ(with("fit.epochs=1").fit.epochs, 1); }

TEST(Override, MakesWhatIsMissing) {
  EXPECT_EQ(with("seed=7").seed, 7U);
  EXPECT_EQ(with("data.train.random.samples=64").data.at("train").random_samples, 64);
}

TEST(Override, GoesThroughLists) {
  EXPECT_EQ(with("model.layers.0.Dense.units=5").model.layers.at(0).arguments.find("units")->as_int("units"), 5);
}

TEST(Override, FindsKeysWithDots) {
  const auto spec = with("distribution.ModelParallel.layout_map.dense.*/kernel=[model, null]");
  ASSERT_EQ(spec.distribution.layout_map.size(), 1U);
  EXPECT_EQ(spec.distribution.layout_map.at(0).dims.at(0), AxisNames{"model"});
}

TEST(Override, TheValueIsYaml) {
  EXPECT_EQ(with("compile.optimizer={SGD: {momentum: 0.9}}").compile.optimizer.name, "SGD");
  EXPECT_EQ(with("distribution=DataParallel").distribution.strategy, DistributionSpec::Strategy::kDataParallel);
  EXPECT_EQ(with("fit=").fit.epochs, 1);
}

TEST(Override, LaterOnesWin) { EXPECT_EQ(parse_spec(kModel, "c.yaml", {"seed=1", "seed=2"}).seed, 2U); }

TEST(Override, MistakesAreReportedAtTheOverride) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"fit.epochz=1", "--set fit.epochz=1: unknown key 'epochz' in fit; did you mean 'epochs'?"},
      {"fit.epochs=0", "--set fit.epochs=0: fit: epochs must be positive and below 1000000000, found 0"},
      {"fit.epochs", "--set fit.epochs: expected key=value, as in --set fit.epochs=1"},
      {"=1", "--set =1: expected key=value, as in --set fit.epochs=1"},
      {"fit..epochs=1", "--set fit..epochs=1: 'fit..epochs' has an empty key"},
      {"fit.=1", "--set fit.=1: 'fit.' has an empty key"},
      {"model.layers.1.Dense.units=5",
       "--set model.layers.1.Dense.units=5: index 1 is beyond 'model.layers', which has 1 items; the first is 0"},
      {"model.layers.dense.units=5",
       "--set model.layers.dense.units=5: 'model.layers' is a list: expected an index, found 'dense'"},
      {"compile.optimizer.Adam.learning_rate=1",
       "--set compile.optimizer.Adam.learning_rate=1: 'compile.optimizer' is the text 'adam', not a mapping; set it as "
       "a whole: --set 'compile.optimizer={Adam: {learning_rate: 1}}'"},
      {"compile.optimizer.learning_rate=1",
       "--set compile.optimizer.learning_rate=1: 'compile.optimizer' is the text 'adam', not a mapping; set it as a "
       "whole: --set 'compile.optimizer={adam: {learning_rate: 1}}'"},
      {"seed=[1", "--set seed=[1: value:1:1: not YAML: end of sequence flow not found"},
  };
  for (const auto& [text, sentence] : cases) EXPECT_EQ(override_error(text), sentence);
}

}  // namespace
}  // namespace tessera::config
