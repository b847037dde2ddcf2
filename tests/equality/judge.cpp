#include "equality/judge.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "support/planned_counters.h"

namespace tessera::equality {
namespace {

constexpr double kTolerance = 3e-5;  // of the largest element; float32 sums of up to some hundred terms, three steps

}  // namespace

void expect_equal(const test::Outcome& one, const test::Outcome& many) {
  const auto difference = test::compare(one, many);
  EXPECT_LE(difference.worst, kTolerance) << difference.where;
}

void expect_planned(const test::Outcome& many, const partition::Plan& plan) {
  auto counted = many.counted;
  counted.box_exchange = {};
  const auto planned = test::planned_counters(plan, kSteps);
  EXPECT_EQ(counted, planned) << "all_reduce " << counted.all_reduce.calls << " calls of " << counted.all_reduce.bytes
                              << " bytes, planned " << planned.all_reduce.calls << " of " << planned.all_reduce.bytes;
}

int case_count(int otherwise) {
  const char* text = std::getenv("TESSERA_MESH_CASES");
  return text != nullptr ? std::atoi(text) : otherwise;
}

}  // namespace tessera::equality
