#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/collectives.h"
#include "core/error.h"

namespace tessera::comm {
namespace {

using ::testing::HasSubstr;

class OnThreads : public ::testing::TestWithParam<int> {};

TEST_P(OnThreads, CollectivesMatchTheNaiveResult) { run_on_threads(GetParam(), check_collectives); }
TEST_P(OnThreads, BoxesArriveWhereTheyBelong) { run_on_threads(GetParam(), check_box_exchange); }
TEST_P(OnThreads, SumsAreTheSameBitsInRankOrder) {
  run_on_threads(GetParam(), [](World& world) { check_bits(world, true); });
}

TEST_P(OnThreads, NanIsTheMaximum) {
  run_on_threads(GetParam(), [](World& world) { check_maximum_of_nan(world); });
}
TEST_P(OnThreads, CallsAndBytesAreCounted) { run_on_threads(GetParam(), check_counters); }
TEST_P(OnThreads, HundredsOfCommunicators) { run_on_threads(GetParam(), check_many_communicators); }
TEST_P(OnThreads, ControlPlane) { run_on_threads(GetParam(), check_control_plane); }
TEST_P(OnThreads, RanksThatRunAheadDoNoHarm) { run_on_threads(GetParam(), check_in_a_hurry); }

INSTANTIATE_TEST_SUITE_P(Ranks, OnThreads, ::testing::Values(1, 2, 3, 4, 8));

TEST(Self, DoesAllOnItsOwn) {
  const auto world = make_self_world();
  check_collectives(*world);
  check_box_exchange(*world);
  check_counters(*world);
  check_control_plane(*world);
}

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void all_reduce_one(World& world) {
  std::vector<std::int64_t> ranks;
  for (int r = 0; r < world.size(); ++r) ranks.push_back(r);
  double x = 1;
  world.communicator(ranks).all_reduce({{&x, &x, 1}}, DType::kF64, Reduce::kSum);
}

TEST(Threads, AFailingRankWakesTheOthersAndItsOwnExceptionComesOut) {
  std::atomic<int> lost{0};
  const auto run = [&] {
    run_on_threads(4, [&](World& world) {
      if (world.rank() == 2) fail(ExitCode::kData, "row 17 is not a number");
      try {
        all_reduce_one(world);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::kPeerLost);
        EXPECT_THAT(e.what(), HasSubstr("rank 2"));
        ++lost;
        throw;
      }
    });
  };
  EXPECT_LT(seconds_of([&] {
              try {
                run();
                FAIL();
              } catch (const Error& e) {
                EXPECT_EQ(e.code(), ExitCode::kData);
                EXPECT_STREQ(e.what(), "row 17 is not a number");
              }
            }),
            5);
  EXPECT_EQ(lost, 3);
}

TEST(Threads, ARankThatEndsEarlyIsNamed) {
  try {
    run_on_threads(3, [&](World& world) {
      if (world.rank() != 1) all_reduce_one(world);
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kPeerLost);
    EXPECT_THAT(e.what(), HasSubstr("rank 1 on"));
    EXPECT_THAT(e.what(), HasSubstr("has ended"));
  }
}

TEST(Threads, ASlowRankIsNamedWithWhatWaitsForIt) {
  try {
    run_on_threads(4, [&](World& world) {
      const Context context{"all_reduce of dense_1/kernel's gradient", 412, 88};
      world.set_context(&context);
      world.set_deadline(0.2);
      if (world.rank() >= 2) std::this_thread::sleep_for(std::chrono::seconds(1));
      all_reduce_one(world);
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kPeerLost);
    EXPECT_THAT(e.what(),
                HasSubstr("all_reduce of dense_1/kernel's gradient (instruction 412, step 88) has waited 0.2 s for"));
    EXPECT_THAT(e.what(), HasSubstr("ranks 2, 3 ("));
  }
}

TEST(Threads, DifferentCallsAreAnErrorThatNamesBoth) {
  try {
    run_on_threads(2, [&](World& world) {
      std::vector<float> in(8), out(16);
      auto& comm = world.communicator({0, 1});
      if (world.rank() == 0) {
        comm.all_reduce({{in.data(), out.data(), 8}}, DType::kF32, Reduce::kSum);
      } else {
        comm.all_gather({{in.data(), out.data(), 8}}, DType::kF32);
      }
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInternal);
    EXPECT_THAT(e.what(), HasSubstr("all_reduce of 8 float32 elements"));
    EXPECT_THAT(e.what(), HasSubstr("all_gather of 8 float32 elements"));
  }
}

TEST(Threads, ReductionOfAnUnknownDTypeSaysSo) {
  try {
    run_on_threads(2, [&](World& world) {
      std::vector<std::uint16_t> x(8);
      world.communicator({0, 1}).all_reduce({{x.data(), x.data(), 8}}, DType::kBF16, Reduce::kSum);
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("bfloat16"));
  }
}

}  // namespace
}  // namespace tessera::comm
