#include "train/signals.h"

#include <chrono>
#include <csignal>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

namespace tessera::train {
namespace {

void send_and_wait(int signal, const SignalFlag& flag) {
  kill(getpid(), signal);
  for (int tries = 0; tries < 5000 && !flag.raised(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool is_blocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(SignalFlag, IsRaisedByTheFirstSignal) {
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    const SignalFlag flag;
    EXPECT_FALSE(flag.raised());
    send_and_wait(signal, flag);
    EXPECT_TRUE(flag.raised());
  }
}

TEST(SignalFlag, InterruptsNeitherThisThreadNorThoseThatItStarts) {
  {
    const SignalFlag flag;
    bool blocked = false;
    std::thread([&] { blocked = is_blocked(SIGUSR1) && is_blocked(SIGTERM) && is_blocked(SIGINT); }).join();
    EXPECT_TRUE(blocked);
    EXPECT_TRUE(is_blocked(SIGUSR1) && is_blocked(SIGTERM) && is_blocked(SIGINT));
  }
  EXPECT_FALSE(is_blocked(SIGUSR1) || is_blocked(SIGTERM) || is_blocked(SIGINT));
}

TEST(SignalFlag, SignalsThatComeTogetherAreOneWish) {
  // A terminal sends Ctrl-C to all processes and mpirun passes its own on.
  const SignalFlag flag;
  send_and_wait(SIGINT, flag);
  for (const int signal : {SIGINT, SIGTERM, SIGTERM}) {
    kill(getpid(), signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(flag.raised());
}

TEST(SignalFlag, ASecondSignalAWhileLaterEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const SignalFlag flag;
        send_and_wait(SIGTERM, flag);
        std::this_thread::sleep_for(std::chrono::milliseconds(1200));
        kill(getpid(), SIGTERM);
        std::this_thread::sleep_for(std::chrono::seconds(5));
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace tessera::train
