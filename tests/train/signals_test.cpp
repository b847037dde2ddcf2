#include "train/signals.h"

#include <csignal>

#include <gtest/gtest.h>

namespace tessera::train {
namespace {

TEST(SignalFlag, IsRaisedByTheFirstSignal) {
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    const SignalFlag flag;
    EXPECT_FALSE(flag.raised());
    std::raise(signal);
    EXPECT_TRUE(flag.raised());
  }
}

TEST(SignalFlag, TheSecondSignalEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const SignalFlag flag;
        std::raise(SIGTERM);
        std::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace tessera::train
