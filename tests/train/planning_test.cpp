#include "train/planning.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace tessera::train {
namespace {

/// The layout of the only prediction of `layers` over x (rows, 8) under `rules`, on a mesh (batch 2, model 2).
std::string prediction_layout(const std::string& layers, const std::string& rules) {
  const auto text =
      "version: 1\nmodel:\n  inputs: {x: {shape: [8]}}\n  layers: [" + layers +
      "]\n"
      "distribution:\n  ModelParallel: {mesh: {shape: [2, 2], axis_names: [batch, model]}, layout_map: {},\n"
      "    output_layout_map: {" +
      rules + "}}\n";
  const auto spec = config::parse_spec(text, "c.yaml", {});
  const auto plan = plan_run(spec, 4, {.programs = {"predict"}}).plan;
  const auto& program = plan.programs.at("predict");
  EXPECT_EQ(program.outputs.size(), 1U);
  const auto value = static_cast<std::size_t>(program.outputs[0].value);
  return mesh::to_string(program.values[value].layout, plan.mesh);
}

TEST(OutputLayoutMap, PinsWhatStandsForTheOutputOfALayerThatChangesNothing) {
  const std::string dense = "Dense: {name: dense, units: 4}";
  EXPECT_EQ(prediction_layout("{" + dense + "}", ""), "[batch, null]");
  EXPECT_EQ(prediction_layout("{" + dense + "}", "dense: [batch, model]"), "[batch, model]");
  for (const std::string layer : {"Dropout: {name: same, rate: 0.5}", "Activation: {name: same, activation: linear}",
                                  "Reshape: {name: same, target_shape: [4]}", "Flatten: {name: same}"})
    EXPECT_EQ(prediction_layout("{" + dense + "}, {" + layer + "}", "same: [batch, model]"), "[batch, model]") << layer;
}

TEST(OutputLayoutMap, PinsAnInputThatALayerHandsOn) {
  EXPECT_EQ(prediction_layout("{Dropout: {name: same, rate: 0.5}}", "same: [batch, model]"), "[batch, model]");
}

TEST(OutputLayoutMap, PinsTheSecondApplicationOfALayerByItsOwnName) {
  EXPECT_EQ(prediction_layout("{Dense: {name: dense, units: 8}}, {Shared: {layer: dense, name: again}}",
                              "again: [batch, model]"),
            "[batch, model]");
}

TEST(OutputLayoutMap, RefusesToTakeTheBatchOffItsAxes) {
  EXPECT_CONFIG_ERROR(prediction_layout("{Dense: {name: dense, units: 4}}", "dense: [null, model]"),
                      "output_layout_map rule 'dense' does not split dimension 0, the batch, over axis 'batch'");
}

TEST(OutputLayoutMap, RefusesTwoLayoutsOfOneTensor) {
  const std::string layers = "{Dense: {name: dense, units: 4}}, {Dropout: {name: same, rate: 0.5}}";
  EXPECT_EQ(prediction_layout(layers, "dense: [batch, model], same: [batch, model]"), "[batch, model]");
  EXPECT_CONFIG_ERROR(prediction_layout(layers, "dense: [batch, model], same: [[batch, model], null]"),
                      "output_layout_map rules 'dense' and 'same' lay one tensor out in two ways");
}

}  // namespace
}  // namespace tessera::train
