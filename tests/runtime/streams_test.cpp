#include "runtime/streams.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace tessera::runtime {
namespace {

TEST(Streams, AWaitSeesWhatTheOtherStreamWrote) {
  Streams streams;
  for (int round = 0; round < 200; ++round) {
    int written = 0, seen = 0, answer = 0;
    streams.run(
        [&] {
          written = round + 1;
          streams.advance(0);
          streams.wait_for(1, 1);
          answer = seen + 1;
        },
        [&] {
          streams.wait_for(0, 1);
          seen = written;
          streams.advance(1);
        });
    EXPECT_EQ(answer, round + 2);
  }
}

TEST(Streams, AnErrorOfOneStreamReleasesTheOtherAndIsRethrown) {
  Streams streams;
  EXPECT_THROW(streams.run([&] { streams.wait_for(1, 1); }, [&] { throw std::runtime_error("lost"); }),
               std::runtime_error);
  EXPECT_THROW(streams.run([&] { throw std::runtime_error("bad"); }, [&] { streams.wait_for(0, 1); }),
               std::runtime_error);
  bool ran = false;
  streams.run([&] { streams.wait_for(1, 1); }, [&] { streams.advance(1), ran = true; });
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace tessera::runtime
