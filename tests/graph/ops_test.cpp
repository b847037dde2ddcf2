#include "graph/ops/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/recording_emit.h"

namespace tessera::graph {
namespace {

using testing::ElementsAre;

/// One op on variables of these shapes.
struct One {
  One(const Op& op, const std::vector<Shape>& shapes, const Attributes& attributes = {},
      const std::vector<DType>& dtypes = {}) {
    std::vector<int> args;
    for (std::size_t k = 0; k < shapes.size(); ++k)
      args.push_back(graph.add_variable({.path = "v" + std::to_string(k)}, shapes[k],
                                        k < dtypes.size() ? dtypes[k] : DType::kF32));
    id = graph.add_op(op, "op", "layer", args, attributes);
  }
  const Node& node() const { return graph.node(id); }
  const OpTraits& traits() const { return node().traits; }
  std::vector<std::string> forward(const std::string& split = "") const {
    RecordingEmit e(node(), split);
    node().op->forward(e);
    return e.lines;
  }
  std::vector<std::string> backward(const std::vector<int>& wanted, const std::string& split = "",
                                    bool accumulate = false) const {
    RecordingEmit e(node(), split, wanted, accumulate);
    node().op->backward(e);
    return e.lines;
  }
  Graph graph;
  int id = -1;
};

std::string text(const Rule& rule) {
  std::string all;
  const auto add = [&](const TensorFactors& tensor) {
    for (const auto& dim : tensor) all += dim.size() == 1 ? dim : "(" + dim + ")";
  };
  for (std::size_t k = 0; k < rule.operands.size(); ++k) {
    if (k > 0) all += ",";
    add(rule.operands[k]);
  }
  all += "->";
  add(rule.result);
  return all + (rule.whole.empty() ? "" : " whole " + rule.whole);
}

std::string reshape_rule(const Shape& from, const Shape& to) {
  return text(One(kReshape, {from}, {{"shape", to}}).traits().rule);
}

TEST(Ops, ReshapeIsTheCommonRefinement) {
  EXPECT_EQ(reshape_rule({6, 4, 5, 2}, {6, 40}), "abcd->a(bcd)");
  EXPECT_EQ(reshape_rule({6, 40}, {6, 4, 5, 2}), "a(bcd)->abcd");
  EXPECT_EQ(reshape_rule({6, 12}, {6, 3, 4}), "a(bc)->abc");
  EXPECT_EQ(reshape_rule({6, 6, 2}, {6, 4, 3}), "a(bc)f->a(bd)e whole cdef");
}

TEST(Ops, ReshapeKeepsABatchOfOne) {
  EXPECT_EQ(reshape_rule({1, 4, 2}, {1, 8}), "abc->a(bc)");
  EXPECT_EQ(reshape_rule({1, 1}, {1}), "ab->a");
}

TEST(Ops, MatmulGradients) {
  const One op(kMatmul, {{6, 5, 8}, {8, 12}});
  EXPECT_EQ(text(op.traits().rule), "abk,kn->abn");
  EXPECT_THAT(op.backward({0, 1}), ElementsAre("matmul(dy, x1 -> dx0)", "matmul(x0, dy -> dx1)"));
  EXPECT_THAT(op.backward({1}), ElementsAre("matmul(x0, dy -> dx1)"));
}

TEST(Ops, BiasGradientIsSummedOverTheRows) {
  const One op(kBiasAdd, {{6, 5, 8}, {8}});
  EXPECT_THAT(op.backward({0, 1}), ElementsAre("copy(dy -> dx0)", "reduce_sum(dy -> dx1)"));
}

TEST(Ops, GradientsOfVariablesAccumulateWhereTheKernelCannot) {
  const One op(kUnary, {{6, 8}}, {{"function", std::string("relu")}});
  EXPECT_THAT(op.backward({0}, "", true),
              ElementsAre("elementwise(y, dy -> cotangent_0)", "reduce_sum(cotangent_0 -> dx0)"));
}

TEST(Ops, ReluReadsItsResultAndGeluItsOperand) {
  EXPECT_EQ(One(kUnary, {{6, 8}}, {{"function", std::string("relu")}}).traits().saves_result, std::vector<int>{0});
  EXPECT_TRUE(One(kUnary, {{6, 8}}, {{"function", std::string("gelu")}}).traits().saves.contains(0));
}

TEST(Ops, AddRepeatsAndSums) {
  const One op(kAdd, {{3, 4, 5}, {3, 1, 5}});
  EXPECT_THAT(op.forward(), ElementsAre("broadcast_to(x1 -> repeated_1)", "add_n(x0, repeated_1 -> y)"));
  EXPECT_THAT(op.backward({0, 1}), ElementsAre("copy(dy -> dx0)", "reduce_sum(dy -> dx1)"));
}

TEST(Ops, SplitSoftmaxReducesMaxThenSum) {
  const One op(kSoftmax, {{6, 8}}, {{"log", false}});
  EXPECT_THAT(op.forward(), ElementsAre("softmax(x0 -> y)"));
  EXPECT_THAT(op.forward("v"), ElementsAre("row_max(x0 -> max)", "max max over v", "row_sum_exp(x0, max -> sum)",
                                           "sum sum over v", "softmax_finish(x0, max, sum -> y)"));
  EXPECT_THAT(op.backward({0}, "v"),
              ElementsAre("row_dot(y, dy -> dot)", "sum dot over v", "softmax_backward_finish(y, dy, dot -> dx0)"));
}

TEST(Ops, SplitLayerNormSendsTwoSumsARow) {
  const One op(kLayerNorm, {{6, 5, 8}, {8}, {8}},
               {{"axes", std::int64_t{1}}, {"epsilon", 1e-3}, {"scale", true}, {"center", true}});
  EXPECT_EQ(text(op.traits().rule), "abc,c,c->abc");
  EXPECT_EQ(op.traits().saves, (std::map<int, std::vector<int>>{{0, {0, 1}}, {1, {0}}}));
  EXPECT_EQ(op.traits().inner[0].rows, "ab");
  EXPECT_THAT(op.forward("c"), ElementsAre("row_moments(x0 -> sums)", "sum sums over c",
                                           "layer_norm_finish(x0, sums, x1, x2 -> y, mean, rstd)"));
  EXPECT_THAT(
      op.backward({0, 1, 2}, "c"),
      ElementsAre("layer_norm_backward_sums(dy, x0, mean, rstd, x1 -> backward_sums)", "sum backward_sums over c",
                  "layer_norm_backward_finish(dy, x0, mean, rstd, backward_sums, x1 -> dx0, dx1, dx2)"));
  EXPECT_THAT(op.backward({1, 2}, "c"), ElementsAre("layer_norm_backward(dy, x0, mean, rstd -> dx1, dx2)"));
}

TEST(Ops, EmbeddingReducesOverTheVocabulary) {
  const One op(kEmbedding, {{7, 4}, {6, 5}}, {}, {DType::kF32, DType::kI32});
  EXPECT_EQ(text(op.traits().rule), "vz,ab->abz");
  EXPECT_THAT(op.backward({0}), ElementsAre("embedding_backward(x1, dy -> dx0)"));
}

TEST(Ops, SplitCrossentropyPacksItsSums) {
  const One op(kSparseCrossentropy, {{6, 8}, {6}}, {{"from_logits", true}}, {DType::kF32, DType::kI32});
  EXPECT_THAT(op.forward("v"),
              ElementsAre("row_max(x0 -> max)", "max max over v", "row_sum_exp_picked(x0, max, x1 -> sums)",
                          "sum sums over v", "sparse_crossentropy_finish(max, sums, x1 -> y, lse)"));
}

TEST(Ops, CrossentropyOfProbabilitiesKeepsTheClassesWhole) {
  const One op(kSparseCrossentropy, {{6, 8}, {6}}, {{"from_logits", false}}, {DType::kF32, DType::kI32});
  EXPECT_EQ(op.traits().rule.whole, "v");
}

TEST(Ops, RowLossIsASumOverTheClasses) {
  const One op(kRowLoss, {{6, 5, 8}, {6, 5, 8}}, {{"loss", std::string("mse")}});
  EXPECT_EQ(text(op.traits().rule), "abz,abz->ab");
}

TEST(Ops, ConcatSplitsOnlyWhatIsWanted) {
  const One op(kConcat, {{6, 3}, {6, 4}, {6, 2}}, {{"dim", std::int64_t{1}}});
  EXPECT_EQ(text(op.traits().rule), "ai,aj,ak->az whole ijkz");
  RecordingEmit e(op.node(), "", {0, 2});
  kConcat.backward(e);
  EXPECT_THAT(e.lines, ElementsAre("split(dy -> dx0, dx2)"));
  EXPECT_EQ(e.last_attributes.get<std::vector<std::int64_t>>("sizes"), (std::vector<std::int64_t>{3, 4, 2}));
}

TEST(Ops, UpdateWritesItsSlots) {
  const One op(kAdamUpdate, {{6, 8}, {6, 8}, {6, 8}, {6, 8}});
  EXPECT_THAT(op.forward(), ElementsAre("adam_update(x0, x1, x2, x3 -> y, x2, x3)"));
}

TEST(Ops, MetricsResultIsItsState) {
  const One op(kMetricAccumulate, {{6}, {6}});
  EXPECT_EQ(op.node().shape(), (Shape{2}));
  EXPECT_THAT(op.forward(), ElementsAre("metric_accumulate(x0, x1 -> y)"));
}

TEST(Ops, ReducedBatchNeedsARowMask) {
  Graph g;
  const int x = g.add_input("x", {6, 8}, DType::kF32, 0);
  EXPECT_THROW(g.add_op(kSumSquares, "s", "layer", {x}, {}), Error);
  EXPECT_THROW(g.add_op(kConcat, "c", "layer", {x, x}, {{"dim", std::int64_t{0}}}), Error);
  EXPECT_NO_THROW(g.add_op(kWeightedSum, "w", "layer", {x}, {{"weights", false}, {"denominator", std::string("one")}}));
}

TEST(Ops, PrologueReadsInputsAlone) {
  Graph g;
  const int x = g.add_input("w", {6}, DType::kF32, 0);
  const int v = g.add_variable({.path = "v"}, {6}, DType::kF32);
  EXPECT_NO_THROW(g.add_op(kSumWeights, "s", "loss", {x}, {}, true));
  EXPECT_THROW(g.add_op(kSumWeights, "t", "loss", {v}, {}, true), Error);
}

}  // namespace
}  // namespace tessera::graph
