#include "mesh/layout_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"

namespace tessera::mesh {
namespace {

LayoutRule rule(const std::string& key, std::vector<std::vector<Axis>> dims = {{}, {1}}, int line = 1) {
  return {key, std::move(dims), false, {"digits.yaml", line, 24}, {"digits.yaml", line, 7}};
}

LayoutMap layout_map(const std::vector<std::string>& keys) {
  LayoutMap map;
  int line = 1;
  for (const auto& key : keys) map.insert(rule(key, {{}, {1}}, line++));
  return map;
}

TEST(LayoutMap, ExactKeyBeatsRegularExpression) {
  LayoutMap map;
  map.insert(rule("dense_.*/kernel", {{0}, {}}));
  map.insert(rule("dense_1/kernel", {{}, {1}}));
  EXPECT_EQ(map.find("dense_1/kernel")->key, "dense_1/kernel");
  EXPECT_EQ(map.find("dense_2/kernel")->key, "dense_.*/kernel");
}

TEST(LayoutMap, RegularExpressionMustMatchTheWholePath) {
  const auto map = layout_map({"dense"});
  EXPECT_EQ(map.find("dense/kernel"), nullptr);
  EXPECT_EQ(map.find("block/dense"), nullptr);
  EXPECT_NE(map.find("dense"), nullptr);
  EXPECT_TRUE(map.matches_as_search(0, "block/dense/kernel"));
}

TEST(LayoutMap, NoMatchIsNoRule) { EXPECT_EQ(layout_map({"conv.*"}).find("dense/kernel"), nullptr); }

TEST(LayoutMap, AmbiguousMatchNamesBothRulesEvenIfTheLayoutsAreEqual) {
  const auto map = layout_map({"dense.*", "conv.*", ".*kernel"});
  EXPECT_CONFIG_ERROR(map.find("dense/kernel"),
                      "digits.yaml:3:7: 2 layout_map rules match 'dense/kernel': 'dense.*' (line 1) and '.*kernel' "
                      "(line 3); let one match, or write 'dense/kernel' itself as a rule");
}

TEST(LayoutMap, OrderMeansNothing) {
  EXPECT_EQ(layout_map({"a/.*", "b/.*"}).find("b/x")->key, layout_map({"b/.*", "a/.*"}).find("b/x")->key);
}

TEST(LayoutMap, DuplicateKeyIsAnError) {
  auto map = layout_map({"dense/kernel"});
  EXPECT_CONFIG_ERROR(map.insert(rule("dense/kernel")),
                      "digits.yaml:1:7: layout_map has the rule 'dense/kernel' twice");
}

TEST(LayoutMap, BadRegularExpressionIsAnErrorAtItsLine) {
  LayoutMap map;
  EXPECT_CONFIG_ERROR(map.insert(rule("dense_(1", {}, 5)),
                      "digits.yaml:5:7: layout_map rule 'dense_(1' is not a regular expression (RE2): missing )");
  EXPECT_EQ(map.size(), 0U);
}

TEST(LayoutMap, EraseLengthAndInsertionOrder) {
  auto map = layout_map({"c", "a", "b"});
  EXPECT_EQ(map.size(), 3U);
  map.erase("a");
  EXPECT_EQ(map.size(), 2U);
  EXPECT_EQ(map.rules()[0].key, "c");
  EXPECT_EQ(map.rules()[1].key, "b");
  EXPECT_EQ(map.find("a"), nullptr);
  EXPECT_EQ(map.find("b")->key, "b");
  EXPECT_CONFIG_ERROR(map.erase("a"), "no rule 'a'");
}

}  // namespace
}  // namespace tessera::mesh
