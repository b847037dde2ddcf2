#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/spec_text.h"

namespace tessera::layers {
namespace {

using Kind = graph::GraphOutput::Kind;

TEST(Model, SparseLabelsLackTheLastDimension) {
  const auto model = SpecText{.loss = "{SparseCategoricalCrossentropy: {from_logits: true}}"}.build();
  EXPECT_EQ(node_of(model.main, "y").shape(), (Shape{6}));
  EXPECT_EQ(node_of(model.main, "y").dtype(), DType::kI32);
}

TEST(Model, OtherTargetsAreLikeThePrediction) {
  const auto model = SpecText{}.build();
  EXPECT_EQ(node_of(model.main, "y").shape(), (Shape{6, 3}));
  EXPECT_EQ(node_of(model.main, "y").dtype(), DType::kF32);
}

TEST(Model, IgnoredClassesAreCountedInThePrologue) {
  const auto model = SpecText{.loss = "{SparseCategoricalCrossentropy: {from_logits: true, ignore_class: 0}}"}.build();
  EXPECT_TRUE(node_of(model.main, "loss/count_valid").prologue);
  const auto& total = node_of(model.main, "loss/total");
  EXPECT_EQ(total.attributes.get<std::string>("denominator"), "input");
  EXPECT_EQ(total.args[1], model.main.find("loss/count_valid"));
}

TEST(Model, DenominatorFollowsTheReduction) {
  const auto denominator = [](const std::string& reduction, bool weights) {
    const auto model =
        SpecText{.loss = "{MeanSquaredError: {reduction: " + reduction + "}}"}.build(Mode::kTrain, weights);
    return node_of(model.main, "loss/total").attributes.get<std::string>("denominator");
  };
  EXPECT_EQ(denominator("sum_over_batch_size", true), "rows");
  EXPECT_EQ(denominator("sum", true), "one");
  EXPECT_EQ(denominator("mean_with_sample_weight", true), "input");
  EXPECT_EQ(denominator("mean_with_sample_weight", false), "rows");
}

TEST(Model, OnlyWhatTheLossReadsIsDifferentiated) {
  const auto model = SpecText{.metrics = "[mae]"}.build();
  EXPECT_TRUE(node_of(model.main, "loss/mse").needs_cotangent);
  EXPECT_FALSE(node_of(model.main, "metrics/mae/mae").needs_cotangent);
  const auto evaluated = SpecText{}.build(Mode::kEvaluate);
  for (const auto& node : evaluated.main.nodes()) EXPECT_FALSE(node.needs_cotangent);
}

TEST(Model, MetricsAddToTheirOwnState) {
  const auto model = SpecText{.metrics = "[mae]"}.build();
  const auto& output = model.outputs.at(1);
  EXPECT_EQ(output.kind, Kind::kMetric);
  EXPECT_EQ(output.name, "metrics/train/mae");
  EXPECT_EQ(node_of(model.main, output.name).variable->role, graph::VariableRole::kMetric);
  EXPECT_EQ(model.main.node(output.node).shape(), node_of(model.main, output.name).shape());
}

TEST(Model, WeightsEnterWeightedMetricsAlone) {
  const auto model = SpecText{.metrics = "[mae]", .weighted_metrics = "[mse]"}.build(Mode::kEvaluate, true);
  EXPECT_EQ(node_of(model.main, "metrics/mae/accumulate").args.size(), 1U);
  EXPECT_EQ(node_of(model.main, "metrics/mse/accumulate").args.size(), 2U);
}

TEST(Model, AccuracyFollowsTheShapes) {
  const auto kind = [](const std::string& loss, int units) {
    SpecText text{.loss = loss, .metrics = "[accuracy]"};
    text.layers = fmt::format("- Dense: {{units: {}}}", units);
    return node_of(text.build().main, "metrics/accuracy/match").attributes.get<std::string>("kind");
  };
  EXPECT_EQ(kind("binary_crossentropy", 1), "binary");
  EXPECT_EQ(kind("sparse_categorical_crossentropy", 4), "sparse");
  EXPECT_EQ(kind("categorical_crossentropy", 4), "categorical");
}

TEST(Model, MetricNamesAreThoseOfKerasLogs) {
  const SpecText text{
      .metrics = "[mse, MeanSquaredError, {MeanSquaredError: {}}, {MeanAbsoluteError: {name: error}}, mse]",
      .weighted_metrics = "[mse, mae]"};
  EXPECT_THAT(metric_names(text.spec()), testing::ElementsAre("mse", "MeanSquaredError", "mean_squared_error", "error",
                                                              "mse_1", "weighted_mse", "mae"));
}

TEST(Model, PredictionsAreNamedByLayer) {
  const auto model = SpecText{.outputs = "[dense_2, dense_1]"}.build(Mode::kPredict);
  ASSERT_EQ(model.outputs.size(), 2U);
  EXPECT_EQ(model.outputs[1].kind, Kind::kPrediction);
  EXPECT_EQ(model.outputs[1].name, "dense_1");
}

TEST(Model, RunsOfTheReferenceBuild) {
  for (const std::string run : {"seed_mlp", "seed_dense", "digits_mlp", "functional_residual"}) {
    const auto file = TESSERA_SOURCE_DIR "/tests/reference_data/runs/" + run + "/config.yaml";
    const auto spec = config::parse_spec(config::read_text(file), file, {});
    for (const auto mode : {Mode::kTrain, Mode::kEvaluate, Mode::kPredict})
      EXPECT_FALSE(build(spec, {mode, 8, 1, run == "functional_residual"}).outputs.empty()) << run;
  }
}

TEST(Model, SchemaListsTheClasses) {
  std::vector<std::string> names;
  for (const auto& doc : schema()) names.push_back(doc.kind + " " + doc.name);
  for (const auto* name :
       {"layer Dense", "loss Huber", "metric BinaryAccuracy", "optimizer RMSprop", "schedule CosineDecay",
        "block Repeat", "activation leaky_relu", "initialiser random_normal"})
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
}

}  // namespace
}  // namespace tessera::layers
