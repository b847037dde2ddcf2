#include "data/schedule.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace tessera::data {
namespace {

using Remainder = config::FitSpec::Remainder;

Schedule::Options options(std::int64_t batch_size, Remainder remainder = Remainder::kPad, std::int64_t steps = 0) {
  return {batch_size, remainder, steps, false, {"digits.yaml", 30, 1}};
}

TEST(Schedule, LastBatchHasTheRowsThatAreLeft) {
  const Schedule s(10, options(4));
  EXPECT_EQ(s.steps(0), 3);
  EXPECT_EQ(s.batch(0, 1), (BatchRange{0, 4, 4}));
  EXPECT_EQ(s.batch(2, 2), (BatchRange{2, 8, 2}));
}

TEST(Schedule, DropLeavesTheLastRowsOut) {
  EXPECT_EQ(Schedule(10, options(4, Remainder::kDrop)).steps(0), 2);
  EXPECT_TESSERA_ERROR(Schedule(3, options(4, Remainder::kDrop)), ExitCode::kData,
                       "digits.yaml:30:1: remainder is drop, and 3 samples don't fill one batch of 4");
}

TEST(Schedule, ErrorRefusesARemainder) {
  EXPECT_EQ(Schedule(8, options(4, Remainder::kError)).steps(0), 2);
  EXPECT_TESSERA_ERROR(Schedule(10, options(4, Remainder::kError)), ExitCode::kData,
                       "digits.yaml:30:1: remainder is error, and 10 samples in batches of 4 leave 2");
}

TEST(Schedule, BatchLargerThanTheDatasetIsOneBatch) {
  const Schedule s(3, options(100));
  EXPECT_EQ(s.steps(0), 1);
  EXPECT_EQ(s.batch(0, 0), (BatchRange{0, 0, 3}));
}

TEST(Schedule, NoSamplesIsAnError) { EXPECT_TESSERA_ERROR(Schedule(0, options(4)), ExitCode::kData, "no samples"); }

// Keras's EpochIterator: 5 batches by 3 are epochs of 3, 2 (data ran out), 3, 2, ...
TEST(Schedule, StepsPerEpochGoesOnWhereTheLastEpochEnded) {
  const Schedule s(20, options(4, Remainder::kPad, 3));
  EXPECT_EQ(s.steps(0), 3);
  EXPECT_EQ(s.steps(1), 2);
  EXPECT_FALSE(s.cut_short(0));
  EXPECT_TRUE(s.cut_short(1));
  EXPECT_EQ(s.batch(1, 0), (BatchRange{0, 12, 4}));
  EXPECT_EQ(s.batch(2, 0), (BatchRange{1, 0, 4}));
  EXPECT_EQ(s.batch(3, 1), (BatchRange{1, 16, 4}));
}

TEST(Schedule, StepsPerEpochBeyondTheDataIsCutShort) {
  const Schedule s(20, options(4, Remainder::kPad, 9));
  EXPECT_EQ(s.steps(0), 5);
  EXPECT_TRUE(s.cut_short(0));
  EXPECT_EQ(s.batch(1, 0), (BatchRange{1, 0, 4}));
}

TEST(Schedule, StepsPerEpochThatDivideAreNeverCutShort) {
  const Schedule s(24, options(4, Remainder::kPad, 3));
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) EXPECT_FALSE(s.cut_short(epoch));
  EXPECT_EQ(s.batch(2, 0), (BatchRange{1, 0, 4}));
}

TEST(Schedule, RestartBeginsEveryEpochWithTheFirstBatch) {
  auto o = options(4, Remainder::kPad, 3);
  o.restart = true;
  const Schedule s(20, o);
  EXPECT_EQ(s.steps(1), 3);
  EXPECT_EQ(s.batch(1, 0), (BatchRange{0, 0, 4}));
}

}  // namespace
}  // namespace tessera::data
