#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/spec_text.h"

namespace tessera::layers {
namespace {

using Kind = graph::GraphOutput::Kind;

std::vector<std::string> names(const std::vector<graph::GraphOutput>& outputs, Kind kind) {
  std::vector<std::string> all;
  for (const auto& output : outputs)
    if (output.kind == kind) all.push_back(output.name);
  return all;
}

const std::string kOneLayer = "- Dense: {name: dense, units: 3}";

TEST(Update, SlotsAndGradientsBelongToTheirWeight) {
  const auto model = SpecText{.layers = kOneLayer, .optimizer = "adam"}.build();
  const auto& slot = node_of(model.update, "adam/dense/kernel/velocity");
  EXPECT_EQ(slot.variable->role, graph::VariableRole::kSlot);
  EXPECT_EQ(slot.variable->weight, "dense/kernel");
  EXPECT_EQ(slot.shape(), (Shape{8, 3}));
  const auto& gradient = node_of(model.update, "grad:dense/bias");
  EXPECT_EQ(gradient.variable->role, graph::VariableRole::kGradient);
  EXPECT_EQ(gradient.variable->weight, "dense/bias");
  EXPECT_THAT(names(model.update_outputs, Kind::kAssign), testing::ElementsAre("dense/kernel", "dense/bias"));
}

TEST(Update, NothingIsDifferentiated) {
  const auto model = SpecText{.optimizer = "adam"}.build();
  for (const auto& node : model.update.nodes()) EXPECT_FALSE(node.needs_cotangent);
}

TEST(Update, NormIsReportedOfTheUnclippedGradients) {
  const auto model = SpecText{.layers = kOneLayer, .optimizer = "{SGD: {clipvalue: 0.5}}"}.build();
  EXPECT_THAT(names(model.update_outputs, Kind::kReport), testing::ElementsAre("grad_norm_squared"));
  EXPECT_EQ(node_of(model.update, "dense/kernel/sum_squares").args[0], model.update.find("grad:dense/kernel"));
  const auto& total = node_of(model.update, "grad_norm_squared/add");
  EXPECT_EQ(total.dtype(), DType::kF64);
  EXPECT_TRUE(total.traits.is_sum);
}

TEST(Update, GlobalNormIsOneScalarForAll) {
  const auto model = SpecText{.layers = kOneLayer, .optimizer = "{SGD: {global_clipnorm: 0.5}}"}.build();
  const auto& clip = node_of(model.update, "dense/bias/clip_by_norm");
  EXPECT_EQ(clip.args[1], model.update.find("grad_norm_squared/add"));
  EXPECT_TRUE(clip.attributes.get<bool>("global"));
}

TEST(Update, NormOfAVariableIsItsOwn) {
  const auto model = SpecText{.layers = kOneLayer, .optimizer = "{SGD: {clipnorm: 0.5}}"}.build();
  EXPECT_EQ(node_of(model.update, "dense/bias/clip_by_norm").args[1], model.update.find("dense/bias/sum_squares"));
}

TEST(Update, DecaySearchesInTheVariablesOwnName) {
  const auto model =
      SpecText{.layers = "- Dense: {name: bias_net, units: 3}",
               .optimizer = "{AdamW: {weight_decay: 0.1, exclude_from_weight_decay: {var_names: [bias]}}}"}
          .build();
  EXPECT_EQ(node_of(model.update, "bias_net/kernel/adam_update").attributes.get<double>("weight_decay"), 0.1);
  EXPECT_EQ(node_of(model.update, "bias_net/bias/adam_update").attributes.get<double>("weight_decay"), 0.0);
}

TEST(Update, AdamWDecaysByDefault) {
  const auto model = SpecText{.layers = kOneLayer, .optimizer = "adamw"}.build();
  EXPECT_EQ(node_of(model.update, "dense/kernel/adam_update").attributes.get<double>("weight_decay"), 0.004);
}

TEST(Update, AccumulationHasAGraphOfItsOwn) {
  const auto model = SpecText{.layers = kOneLayer, .optimizer = "{SGD: {gradient_accumulation_steps: 3}}"}.build();
  EXPECT_THAT(names(model.accumulate_outputs, Kind::kAssign),
              testing::ElementsAre("sgd/dense/kernel/gradient_accumulator", "sgd/dense/bias/gradient_accumulator"));
  EXPECT_EQ(node_of(model.update, "dense/kernel/average_gradient").attributes.get<std::int64_t>("steps"), 3);
  EXPECT_TRUE(SpecText{}.build().accumulate.nodes().empty());
}

TEST(Update, AverageFollowsTheUpdatedWeight) {
  const auto model =
      SpecText{.layers = kOneLayer, .optimizer = "{SGD: {use_ema: true, ema_overwrite_frequency: 3}}"}.build();
  EXPECT_EQ(node_of(model.update, "dense/kernel/ema_update").args[1], model.update.find("dense/kernel/sgd_update"));
  const auto& weight = model.update_outputs.at(2);
  EXPECT_EQ(weight.name, "dense/kernel");
  EXPECT_EQ(weight.node, model.update.find("dense/kernel/ema_overwrite"));
}

TEST(Update, OptimizerInfoNamesTheAverages) {
  const auto info = optimizer_info(SpecText{.layers = kOneLayer, .optimizer = "{SGD: {use_ema: true}}"}.spec());
  EXPECT_EQ(info.name, "sgd");
  ASSERT_EQ(info.averages.size(), 2U);
  EXPECT_EQ(info.averages[0], (std::pair<std::string, std::string>{"dense/kernel", "sgd/dense/kernel/average"}));
}

TEST(Update, RmspropHasTheSlotsThatItNeeds) {
  const auto model = SpecText{.layers = kOneLayer, .optimizer = "{RMSprop: {centered: true, momentum: 0.5}}"}.build();
  EXPECT_EQ(node_of(model.update, "dense/kernel/rmsprop_update").args.size(), 5U);
  EXPECT_GE(model.update.find("rm_sprop/dense/kernel/average_gradient"), 0);
}

}  // namespace
}  // namespace tessera::layers
