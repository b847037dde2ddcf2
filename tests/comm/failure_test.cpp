// Jobs in which a rank fails: they end soon, with an exit code and one sentence.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job.h"

namespace tessera::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// `options`: of mpirun.
test::Ended run_job(const std::string& how, const std::string& options = "") {
  return test::run_job("mpirun --allow-run-as-root --oversubscribe -np 3 " + options + " " TESSERA_FAILING_RANK " " +
                       how);
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

const std::string kNodes[] = {"", "-x TESSERA_RANKS_PER_NODE=1", "-x TESSERA_RANKS_PER_NODE=2"};

class Failure : public ::testing::TestWithParam<std::string> {};

TEST_P(Failure, NobodyFails) {
  const auto job = run_job("not", GetParam());
  EXPECT_EQ(job.code, 0) << job.output;
}

TEST_P(Failure, AKilledRankEndsTheJob) {
  const auto job = run_job("killed", GetParam());
  EXPECT_NE(job.code, 0);
  EXPECT_LT(job.seconds, 10);
  EXPECT_THAT(job.output, HasSubstr("rank 1"));
}

TEST_P(Failure, ARankThatEndsEarlyEndsTheJob) {
  const auto job = run_job("ends", GetParam());
  EXPECT_NE(job.code, 0);
  EXPECT_LT(job.seconds, 10);
}

TEST_P(Failure, ASlowRankIsNamedOnceAndTheJobEndsWithSeven) {
  const auto job = run_job("slow", GetParam());
  EXPECT_EQ(job.code, 7) << job.output;
  EXPECT_LT(job.seconds, 10);
  EXPECT_THAT(job.output,
              AllOf(HasSubstr("all_reduce of block_3/up/kernel's gradient (instruction 412, step 8) has waited 1"),
                    HasSubstr(" s for rank 1 (")));
  if (GetParam().empty()) {
    EXPECT_EQ(count(job.output, "has waited"), 1) << job.output;
  }
}

TEST_P(Failure, ARankThatGivesUpEndsTheJobWithItsCodeAndSentence) {
  const auto job = run_job("throws", GetParam());
  EXPECT_EQ(job.code, 3) << job.output;
  EXPECT_LT(job.seconds, 10);
  EXPECT_THAT(job.output, AllOf(HasSubstr("rank 1 on "), HasSubstr(": row 17 of x.npy is not a number"),
                                Not(HasSubstr("cannot go on"))));
}

TEST_P(Failure, AnExceptionThatEndsTheWorldEndsTheJob) {
  const auto job = run_job("leaves", GetParam());
  EXPECT_NE(job.code, 0) << job.output;
  EXPECT_LT(job.seconds, 10);
  EXPECT_THAT(job.output, HasSubstr("no such checkpoint"));
}

INSTANTIATE_TEST_SUITE_P(Nodes, Failure, ::testing::ValuesIn(kNodes));

TEST(Mismatch, DifferentCallsAreAnInternalErrorThatNamesBoth) {
  const auto job = run_job("differs");
  EXPECT_EQ(job.code, 1) << job.output;
  EXPECT_THAT(job.output, AllOf(HasSubstr("all_reduce of 65536 float32 elements"), HasSubstr("barrier")));
}

}  // namespace
}  // namespace tessera::comm
