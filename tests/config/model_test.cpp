#include <gtest/gtest.h>

#include "config/layer_names.h"
#include "config/spec.h"
#include "core/error_text.h"

namespace tessera::config {
namespace {

using Names = std::vector<std::string>;

ModelSpec model(const std::string& text) { return parse_spec("model:\n" + text, "c.yaml", {}).model; }

/// "dense(x) dense_1(dense)"
std::string wiring(const ModelSpec& m) {
  std::string text;
  for (const auto& layer : m.layers)
    text += fmt::format("{}{}({})", text.empty() ? "" : " ", layer.name, fmt::join(layer.inputs, ", "));
  return text;
}
std::string wiring(const std::string& layers) {
  return wiring(model("  inputs: {x: {shape: [4]}}\n  layers:\n" + layers));
}

TEST(LayerNames, AreKerass) {
  EXPECT_EQ(snake_case("Dense"), "dense");
  EXPECT_EQ(snake_case("LayerNormalization"), "layer_normalization");
  EXPECT_EQ(snake_case("Conv2D"), "conv2d");
  EXPECT_EQ(snake_case("MaxPooling2D"), "max_pooling2d");
  EXPECT_EQ(snake_case("LSTM"), "lstm");
  EXPECT_EQ(snake_case("ReLU"), "re_lu");
  EXPECT_EQ(snake_case("PReLU"), "p_re_lu");
  EXPECT_EQ(snake_case("MultiHeadAttention"), "multi_head_attention");
  EXPECT_EQ(snake_case("RMSNormalization"), "rms_normalization");
}

TEST(Model, LayersFollowOneAnother) {
  EXPECT_EQ(
      wiring("    - Dense: {units: 2}\n    - Flatten\n    - Dense: {units: 2}\n    - Dense: {name: last, units: 1}\n"),
      "dense(x) flatten(dense) dense_1(flatten) last(dense_1)");
}

TEST(Model, KnowsInputsArgumentsAndCall) {
  const auto m = model(R"(
  inputs: {tokens: {shape: [20], dtype: int32}, mask: {shape: [], dtype: bool}}
  layers:
    - Embedding: {name: e, input_dim: 8, inputs: tokens}
    - Gate: {name: g, inputs: [e, mask], call: {use_causal_mask: true}}
  outputs: [g]
)");
  EXPECT_EQ(m.inputs.at(0).shape, Shape{20});
  EXPECT_EQ(m.inputs.at(0).dtype, DType::kI32);
  EXPECT_EQ(m.inputs.at(1).shape, Shape{});
  EXPECT_EQ(m.layers.at(0).arguments.entries.size(), 1U);
  EXPECT_EQ(m.layers.at(0).pos, (SourcePos{"c.yaml", 5, 7}));
  EXPECT_EQ(m.layers.at(1).inputs, (Names{"e", "mask"}));
  EXPECT_TRUE(m.layers.at(1).call.find("use_causal_mask")->as_bool(""));
  EXPECT_EQ(m.outputs, Names{"g"});
}

TEST(Model, SharedAppliesALayerAgain) {
  const auto m = model(R"(
  inputs: {a: {shape: [2]}, b: {shape: [2]}}
  layers:
    - Dense: {name: tower, units: 3, inputs: [a]}
    - Shared: {layer: tower, inputs: [b]}
    - Shared: {layer: tower, inputs: [b], call: {reverse: true}}
    - Add: {inputs: [tower, tower_1, tower_2]}
)");
  EXPECT_EQ(wiring(m), "tower(a) tower_1(b) tower_2(b) add(tower, tower_1, tower_2)");
  EXPECT_EQ(m.layers.at(1).arguments.find("layer")->as_text("layer"), "tower");
  EXPECT_TRUE(m.layers.at(2).call.is_map());
}

TEST(Model, RepeatUnfoldsAndChains) {
  EXPECT_EQ(wiring("    - Dense: {name: stem, units: 2}\n"
                   "    - Repeat: {name: block, times: 2, layers: [Dense, {Dense: {name: down}}]}\n"
                   "    - Dense: {name: head}\n"),
            "stem(x) block_0/dense(stem) block_0/down(block_0/dense) block_1/dense(block_0/down) "
            "block_1/down(block_1/dense) head(block_1/down)");
}

TEST(Model, NamesInABlockAreItsOwnFirstAndInputIsWhatItIsAppliedTo) {
  EXPECT_EQ(wiring("    - Dense: {name: up}\n"
                   "    - Repeat:\n"
                   "        name: block\n"
                   "        times: 2\n"
                   "        layers:\n"
                   "          - Dense: {name: up}\n"
                   "          - Add: {name: sum, inputs: [up, input, x]}\n"),
            "up(x) block_0/up(up) block_0/sum(block_0/up, up, x) block_1/up(block_0/sum) "
            "block_1/sum(block_1/up, block_0/sum, x)");
}

TEST(Model, BlocksNest) {
  EXPECT_EQ(
      wiring("    - Repeat:\n"
             "        name: stage\n"
             "        times: 2\n"
             "        layers:\n"
             "          - Sequential: {name: mlp, layers: [{Dense: {name: up}}, {Dense: {name: down}}]}\n"
             "          - Repeat: {times: 1, layers: [{Add: {inputs: [input, mlp]}}]}\n"
             "    - Add: {inputs: [stage_0, stage, stage_1/mlp/up]}\n"),
      "stage_0/mlp/up(x) stage_0/mlp/down(stage_0/mlp/up) stage_0/repeat_0/add(stage_0/mlp/down, stage_0/mlp/down) "
      "stage_1/mlp/up(stage_0/repeat_0/add) stage_1/mlp/down(stage_1/mlp/up) "
      "stage_1/repeat_0/add(stage_1/mlp/down, stage_1/mlp/down) "
      "add(stage_0/repeat_0/add, stage_1/repeat_0/add, stage_1/mlp/up)");
}

TEST(Model, ABlockMayReadAnInputOfItsChoice) {
  const auto m = model(R"(
  inputs: {a: {shape: [2]}, b: {shape: [2]}}
  layers:
    - Sequential: {name: left, inputs: [a], layers: [Dense]}
    - Sequential: {name: right, inputs: [b], layers: [Dense]}
    - Add: {inputs: [left, right]}
)");
  EXPECT_EQ(wiring(m), "left/dense(a) right/dense(b) add(left/dense, right/dense)");
}

TEST(Model, SharedReachesOutOfABlock) {
  const auto m = model(R"(
  inputs: {x: {shape: [2]}}
  layers:
    - Dense: {name: mix, units: 2}
    - Repeat: {name: block, times: 2, layers: [{Shared: {layer: mix}}]}
)");
  EXPECT_EQ(wiring(m), "mix(x) block_0/mix_1(mix) block_1/mix_1(block_0/mix_1)");
  EXPECT_EQ(m.layers.at(2).arguments.find("layer")->as_text("layer"), "mix");
}

TEST(Model, SixtyFourBlocks) {
  const auto m = model(
      "  inputs: {x: {shape: [4]}}\n  layers:\n"
      "    - Repeat: {name: block, times: 64, layers: [Dense, {Add: {inputs: [input, dense]}}]}\n");
  EXPECT_EQ(m.layers.size(), 128U);
  EXPECT_EQ(m.outputs, Names{"block_63/add"});
}

}  // namespace
}  // namespace tessera::config
