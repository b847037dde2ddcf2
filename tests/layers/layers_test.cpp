#include <gtest/gtest.h>

#include "core/philox.h"
#include "layers/spec_text.h"

namespace tessera::layers {
namespace {

/// Shape of the prediction of a model with these layers.
Shape output_shape(const std::string& inputs, const std::string& layers) {
  const auto model = SpecText{.inputs = inputs, .layers = layers}.build(Mode::kPredict);
  return model.main.node(model.outputs.at(0).node).shape();
}

TEST(Layers, DenseMapsTheLastDimension) {
  EXPECT_EQ(output_shape("x: {shape: [5, 8]}", "- Dense: {units: 3}"), (Shape{6, 5, 3}));
}

TEST(Layers, DenseVariablesHaveKerasPathsAndShapes) {
  const auto model = SpecText{}.build(Mode::kPredict);
  EXPECT_EQ(node_of(model.main, "dense_1/kernel").shape(), (Shape{8, 12}));
  EXPECT_EQ(node_of(model.main, "dense_1/bias").shape(), (Shape{12}));
  EXPECT_EQ(node_of(model.main, "dense_1/kernel").variable->initializer.key, philox_key(7, "init", "dense_1/kernel"));
}

TEST(Layers, FlattenAndReshapeKeepTheBatch) {
  EXPECT_EQ(output_shape("x: {shape: [4, 5, 2]}", "- Flatten: {}"), (Shape{6, 40}));
  EXPECT_EQ(output_shape("x: {shape: [6, 2]}", "- Reshape: {target_shape: [4, -1]}"), (Shape{6, 4, 3}));
}

TEST(Layers, ConcatenateAndAddTakeSeveralInputs) {
  const std::string two = "a: {shape: [3, 4]}, b: {shape: [3, 1]}";
  EXPECT_EQ(output_shape(two, "- Concatenate: {inputs: [a, b]}"), (Shape{6, 3, 5}));
  EXPECT_EQ(output_shape(two, "- Add: {inputs: [a, b]}"), (Shape{6, 3, 4}));
}

TEST(Layers, EmbeddingReadsIntegers) {
  const auto model = SpecText{.inputs = "t: {shape: [5], dtype: int32}",
                              .layers = "- Embedding: {name: e, input_dim: 7, output_dim: 4}"}
                         .build(Mode::kPredict);
  EXPECT_EQ(model.main.node(model.outputs[0].node).shape(), (Shape{6, 5, 4}));
  const auto& initializer = node_of(model.main, "e/embeddings").variable->initializer;
  EXPECT_EQ(initializer.kind, graph::Initializer::Kind::kUniform);
  EXPECT_EQ(initializer.high, 0.05);
}

TEST(Layers, IntegersAreCastForRescaling) {
  const auto model =
      SpecText{.inputs = "x: {shape: [5], dtype: uint8}", .layers = "- Rescaling: {name: r, scale: 0.5}"}.build(
          Mode::kPredict);
  EXPECT_EQ(node_of(model.main, "r/cast").dtype(), DType::kF32);
}

TEST(Layers, LayerNormalizationOverTwoAxesHasTheirShape) {
  const auto model =
      SpecText{.inputs = "x: {shape: [4, 5]}", .layers = "- LayerNormalization: {name: n, axis: [1, 2]}"}.build(
          Mode::kPredict);
  EXPECT_EQ(node_of(model.main, "n/gamma").shape(), (Shape{4, 5}));
  EXPECT_EQ(node_of(model.main, "n/layer_norm").traits.rule.composite, "bc");
}

TEST(Layers, DropoutIsThereInTrainingAlone) {
  const SpecText text{.layers = "- Dropout: {name: d, rate: 0.4}\n    - Dense: {units: 3}"};
  EXPECT_GE(text.build(Mode::kTrain).main.find("d/dropout"), 0);
  EXPECT_LT(text.build(Mode::kEvaluate).main.find("d/dropout"), 0);
}

TEST(Layers, SharedLayerUsesTheSameVariables) {
  const auto model = SpecText{.layers = "- Dense: {name: a, units: 8}\n    - Shared: {name: again, layer: a}"}.build();
  EXPECT_GE(model.main.find("a#1/matmul"), 0);
  EXPECT_EQ(node_of(model.main, "a#1/matmul").args[1], model.main.find("a/kernel"));
}

TEST(Layers, FrozenLayerHasNoGradient) {
  const auto model =
      SpecText{.layers = "- Dense: {name: a, units: 8, trainable: false}\n    - Dense: {name: b, units: 3}"}.build();
  EXPECT_FALSE(node_of(model.main, "a/kernel").needs_cotangent);
  EXPECT_LT(model.update.find("a/kernel"), 0);
  EXPECT_GE(model.update.find("b/kernel"), 0);
}

TEST(Layers, EveryActivationBuilds) {
  for (const std::string name : {"linear",     "relu",        "relu6",
                                 "leaky_relu", "elu",         "selu",
                                 "celu",       "gelu",        "{gelu: {approximate: true}}",
                                 "silu",       "sigmoid",     "hard_sigmoid",
                                 "hard_silu",  "tanh",        "softplus",
                                 "softsign",   "mish",        "exponential",
                                 "softmax",    "log_softmax", "{leaky_relu: {negative_slope: 0.3}}"})
    EXPECT_EQ(output_shape("x: {shape: [4]}", "- Activation: {activation: " + name + "}"), (Shape{6, 4})) << name;
}

}  // namespace
}  // namespace tessera::layers
