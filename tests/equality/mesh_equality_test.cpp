#include <cstdlib>

#include <gtest/gtest.h>

#include "equality/random_case.h"
#include "support/planned_counters.h"
#include "support/run_case.h"

namespace tessera::equality {
namespace {

constexpr int kSteps = 3;
constexpr double kTolerance = 3e-5;  // of the largest element; float32 sums of up to some hundred terms, three steps

int case_count() {
  const char* text = std::getenv("TESSERA_MESH_CASES");
  return text != nullptr ? std::atoi(text) : 320;
}

class MeshEquality : public testing::TestWithParam<int> {};

// Loss, gradients and weights on a mesh against one rank; planned collectives against counted ones.
TEST_P(MeshEquality, TrainsAsOneRank) {
  const auto random = random_case(static_cast<std::uint64_t>(GetParam()));
  SCOPED_TRACE(random.yaml());
  try {
    const auto one = test::run(test::prepare(random, random.yaml_of_one_rank(), 1), kSteps);
    const auto prepared = test::prepare(random, random.yaml(), random.ranks);
    const auto many = test::run(prepared, kSteps);
    const auto difference = test::compare(one, many);
    EXPECT_LE(difference.worst, kTolerance) << difference.where;

    auto counted = many.counted;
    counted.box_exchange = {};
    const auto planned = test::planned_counters(prepared.plan, kSteps);
    EXPECT_EQ(counted, planned) << "all_reduce " << counted.all_reduce.calls << " calls of " << counted.all_reduce.bytes
                                << " bytes, planned " << planned.all_reduce.calls << " of " << planned.all_reduce.bytes;
  } catch (const Error& e) {
    FAIL() << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Random, MeshEquality, testing::Range(0, case_count()));

}  // namespace
}  // namespace tessera::equality
