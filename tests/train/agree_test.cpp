#include "train/agree.h"

#include <gtest/gtest.h>

namespace tessera::train {
namespace {

std::string sentence_of(int ranks, const std::function<void(comm::World&)>& body, ExitCode expected) {
  try {
    comm::run_on_threads(ranks, body);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected);
    return error.what();
  }
  return "no error";
}

TEST(Agree, AnErrorOfOneRankIsTheErrorOfAll) {
  const auto sentence = sentence_of(
      4,
      [](comm::World& world) {
        agree(world, [&] {
          if (world.rank() == 2) fail(ExitCode::kData, "x.npy is not there");
        });
        ADD_FAILURE() << "rank " << world.rank() << " went on";
      },
      ExitCode::kData);
  EXPECT_EQ(sentence, "rank 2: x.npy is not there");
}

TEST(Agree, AnErrorOfAllNamesNoRank) {
  const auto sentence = sentence_of(
      3, [](comm::World& world) { agree(world, [] { fail(ExitCode::kConfig, "bad"); }); }, ExitCode::kConfig);
  EXPECT_EQ(sentence, "bad");
}

TEST(Agree, GoesOnWhereNobodyFails) {
  int ran = 0;
  comm::run_on_threads(1, [&](comm::World& world) { agree(world, [&] { ++ran; }); });
  EXPECT_EQ(ran, 1);
}

TEST(OrEndJob, EndsAllRanksWithTheSentence) {
  const auto sentence = sentence_of(
      2,
      [](comm::World& world) {
        or_end_job(world, [&] {
          if (world.rank() == 1) fail(ExitCode::kData, "a bad label");
          world.barrier();
        });
      },
      ExitCode::kData);
  EXPECT_NE(sentence.find("a bad label"), std::string::npos) << sentence;
}

}  // namespace
}  // namespace tessera::train
