#include <gtest/gtest.h>

#include "equality/judge.h"
#include "equality/random_case.h"

namespace tessera::equality {
namespace {

class MeshEquality : public testing::TestWithParam<int> {};

// Loss, gradients and weights on a mesh against one rank; planned collectives against counted ones.
TEST_P(MeshEquality, TrainsAsOneRank) {
  const auto random = random_case(static_cast<std::uint64_t>(GetParam()));
  SCOPED_TRACE(random.yaml());
  try {
    const auto one = test::run(test::prepare(random, random.yaml_of_one_rank(), 1), kSteps);
    const auto prepared = test::prepare(random, random.yaml(), random.ranks);
    const auto many = test::run(prepared, kSteps);
    expect_equal(one, many);
    expect_planned(many, prepared.plan);
  } catch (const Error& e) {
    FAIL() << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Random, MeshEquality, testing::Range(0, case_count(320)));

}  // namespace
}  // namespace tessera::equality
