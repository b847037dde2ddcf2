#include "graph/rule.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace tessera::graph {
namespace {

TEST(Rule, TakesSizesFromTheOperands) {
  const auto rule = parse_rule("mk,kn->mn", {{6, 8}, {8, 12}});
  EXPECT_EQ(rule.operands[1], (TensorFactors{"k", "n"}));
  EXPECT_EQ(shape_of(rule.result, rule.sizes), (Shape{6, 12}));
}

TEST(Rule, ProductLeavesOneFactorOpen) {
  const auto rule = parse_rule("bs(gr)e,btge->bs(gr)e", {{2, 3, 12, 5}, {2, 7, 4, 5}});
  EXPECT_EQ(rule.sizes.at('r'), 3);
  EXPECT_EQ(shape_of(rule.result, rule.sizes), (Shape{2, 3, 12, 5}));
}

TEST(Rule, ReadsKindsOfFactors) {
  const auto rule = parse_rule("bsd,d->bsd; d composite; s whole", {{2, 3, 4}, {4}});
  EXPECT_EQ(rule.composite, "d");
  EXPECT_EQ(rule.whole, "s");
}

TEST(Rule, ScalarsHaveNoFactors) {
  const auto rule = parse_rule("ab,->ab", {{2, 3}, {}});
  EXPECT_TRUE(rule.operands[1].empty());
  EXPECT_TRUE(parse_rule("->", {{}}).operands[0].empty());
}

TEST(Rule, RefusesContradictions) {
  EXPECT_THROW(parse_rule("mk,kn->mn", {{6, 8}, {9, 12}}), Error);
  EXPECT_THROW(parse_rule("m(gi)->m", {{6, 8}}), Error);
  EXPECT_THROW(parse_rule("m->mn", {{6}}), Error);
}

}  // namespace
}  // namespace tessera::graph
