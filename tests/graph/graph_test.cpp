#include "graph/graph.h"

#include <gtest/gtest.h>

#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

Variable weight(const std::string& path) { return {.path = path}; }

struct Dense {
  Graph g;
  int x = g.add_input("x", {6, 5, 8}, DType::kF32, 0);
  int w = g.add_variable(weight("dense/kernel"), {8, 12}, DType::kF32);
  int b = g.add_variable(weight("dense/bias"), {12}, DType::kF32);
  int y = g.add_op(kMatmul, "dense/matmul", "dense", {x, w}, {});
  int z = g.add_op(kBiasAdd, "dense/bias_add", "dense", {y, b}, {});
};

TEST(Graph, BatchFollowsTheFactor) {
  const Dense d;
  EXPECT_EQ(d.g.node(d.z).batch_dim, 0);
  EXPECT_EQ(d.g.node(d.w).batch_dim, -1);
  EXPECT_EQ(d.g.node(d.z).shape(), (Shape{6, 5, 12}));
}

TEST(Graph, WhatDependsOnATrainedWeightNeedsACotangent) {
  const Dense d;
  EXPECT_FALSE(d.g.node(d.x).needs_cotangent);
  EXPECT_TRUE(d.g.node(d.w).needs_cotangent);
  EXPECT_TRUE(d.g.node(d.z).needs_cotangent);
}

TEST(Graph, DifferentiateKeepsOnlyWhatTheLossReads) {
  Dense d;
  d.g.differentiate(d.y);
  EXPECT_TRUE(d.g.node(d.w).needs_cotangent);
  EXPECT_FALSE(d.g.node(d.b).needs_cotangent);
  EXPECT_FALSE(d.g.node(d.z).needs_cotangent);
}

TEST(Graph, FindsByName) {
  const Dense d;
  EXPECT_EQ(d.g.find("dense/bias"), d.b);
  EXPECT_EQ(d.g.find("dense/nothing"), -1);
}

TEST(Graph, MatmulIsLinearInEachOperandAndSavesTheOther) {
  const Dense d;
  const auto& t = d.g.node(d.y).traits;
  EXPECT_EQ(t.linear, (std::vector<std::vector<int>>{{0}, {1}}));
  EXPECT_EQ(t.saves, (std::map<int, std::vector<int>>{{0, {1}}, {1, {0}}}));
  EXPECT_TRUE(t.matmul && t.passes);
}

TEST(Graph, BiasAddIsNotLinear) {
  const Dense d;
  EXPECT_TRUE(d.g.node(d.z).traits.linear.empty());
}

TEST(Graph, AddBroadcastsWithLettersThatAreNeverSplit) {
  Graph g;
  const int a = g.add_input("a", {4, 3, 5}, DType::kF32, 0);
  const int b = g.add_input("b", {4, 1, 5}, DType::kF32, 0);
  const auto& node = g.node(g.add_op(kAdd, "add", "add", {a, b}, {}));
  EXPECT_EQ(node.shape(), (Shape{4, 3, 5}));
  EXPECT_EQ(node.batch_dim, 0);
  EXPECT_EQ(node.traits.rule.operands[1], (TensorFactors{"a", "j", "c"}));
  EXPECT_EQ(node.traits.rule.sizes.at('j'), 1);
}

TEST(Graph, BatchDimensionsMustAgree) {
  Graph g;
  const int a = g.add_input("a", {4, 4}, DType::kF32, 0);
  const int b = g.add_input("b", {4, 4}, DType::kF32, 1);
  EXPECT_THROW(g.add_op(kAdd, "add", "add", {a, b}, {}), Error);
}

}  // namespace
}  // namespace tessera::graph
