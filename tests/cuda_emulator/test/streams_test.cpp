// The order of streams: what an event promises holds in every order, what nothing promises breaks.
#include <chrono>
#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>

#include "harness.h"
#include "kernels.h"

namespace tessera::cuda_emulator {
namespace {

using ::testing::HasSubstr;

constexpr int kRounds = 20, kSize = 1000;

/// In how many of 20 rounds a copy on one stream misses what a kernel on another wrote.
int wrong_rounds(StreamOrder order, bool with_event) {
  int wrong = 0;
  for (unsigned seed = 1; seed <= kRounds; ++seed) {
    set_order(order, ThreadOrder::kRandom, seed);
    const Buffer<float> x(std::vector<float>(kSize, 1.0f)), y(kSize);
    const Stream compute, communication;
    const EventHandle ready;
    EXPECT_CUDA(scale(compute, x, 3.0f, kSize));
    EXPECT_CUDA(cudaEventRecord(ready, compute));
    if (with_event) {
      EXPECT_CUDA(cudaStreamWaitEvent(communication, ready, 0));
    }
    EXPECT_CUDA(cudaMemcpyAsync(y, x, kSize * 4, cudaMemcpyDeviceToDevice, communication));
    EXPECT_CUDA(cudaStreamSynchronize(communication));
    wrong += y.host()[0] != 3.0f;
    EXPECT_CUDA(cudaStreamSynchronize(compute));
  }
  return wrong;
}

class StreamsTest : public EmulatorTest {};

TEST_F(StreamsTest, AnEventWaitHoldsInEveryOrder) {
  for (const StreamOrder order : {StreamOrder::kEager, StreamOrder::kLate, StreamOrder::kRandom})
    EXPECT_EQ(wrong_rounds(order, true), 0);
}

TEST_F(StreamsTest, AMissingEventWaitShows) {
  EXPECT_EQ(wrong_rounds(StreamOrder::kLate, false), kRounds);
  EXPECT_GT(wrong_rounds(StreamOrder::kRandom, false), 0);
}

// The copy of x waits in a stream while another stream overwrites it.
TEST_F(StreamsTest, MemoryThatIsReusedTooEarlyShows) {
  set_order(StreamOrder::kLate, ThreadOrder::kRandom);
  const Buffer<float> x(std::vector<float>(kSize, 1.0f)), y(kSize);
  const Stream reader, writer;
  ASSERT_CUDA(cudaMemcpyAsync(y, x, kSize * 4, cudaMemcpyDeviceToDevice, reader));
  ASSERT_CUDA(scale(writer, x, 5.0f, kSize));
  ASSERT_CUDA(cudaStreamSynchronize(writer));
  ASSERT_CUDA(cudaStreamSynchronize(reader));
  EXPECT_EQ(y.host()[0], 5.0f);
}

TEST_F(StreamsTest, AWaitMeansTheLatestRecordBeforeIt) {
  set_order(StreamOrder::kLate, ThreadOrder::kRandom);
  const Buffer<float> x(std::vector<float>(kSize, 1.0f)), y(kSize);
  const Stream compute, copies;
  const EventHandle event;
  ASSERT_CUDA(scale(compute, x, 2.0f, kSize));
  ASSERT_CUDA(cudaEventRecord(event, compute));
  ASSERT_CUDA(cudaStreamWaitEvent(copies, event, 0));
  ASSERT_CUDA(scale(compute, x, 2.0f, kSize));
  ASSERT_CUDA(cudaEventRecord(event, compute));
  ASSERT_CUDA(cudaMemcpyAsync(y, x, kSize * 4, cudaMemcpyDeviceToDevice, copies));
  ASSERT_CUDA(cudaStreamSynchronize(copies));
  EXPECT_EQ(y.host()[0], 2.0f);
  ASSERT_CUDA(cudaStreamSynchronize(compute));
}

TEST_F(StreamsTest, NothingRunsBeforeTheHostWaits) {
  set_order(StreamOrder::kLate, ThreadOrder::kRandom);
  const Stream s;
  const EventHandle event;
  const Buffer<float> x(kSize);
  ASSERT_CUDA(scale(s, x, 2.0f, kSize));
  ASSERT_CUDA(cudaEventRecord(event, s));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_CUDA(cudaEventSynchronize(event));
  EXPECT_CUDA(cudaEventQuery(event));
}

TEST_F(StreamsTest, AHostThatOnlyPollsGetsThere) {
  set_order(StreamOrder::kLate, ThreadOrder::kRandom);
  const Stream s;
  const Buffer<float> x(kSize);
  ASSERT_CUDA(scale(s, x, 2.0f, kSize));
  cudaError_t state;
  while ((state = cudaStreamQuery(s)) == cudaErrorNotReady) std::this_thread::yield();
  EXPECT_CUDA(state);
}

TEST_F(StreamsTest, TimedEventsTellATime) {
  const Stream s;
  cudaEvent_t from, to;
  ASSERT_CUDA(cudaEventCreate(&from));
  ASSERT_CUDA(cudaEventCreate(&to));
  const Buffer<float> x(kSize);
  ASSERT_CUDA(cudaEventRecord(from, s));
  ASSERT_CUDA(scale(s, x, 2.0f, kSize));
  ASSERT_CUDA(cudaEventRecord(to, s));
  ASSERT_CUDA(cudaEventSynchronize(to));
  float ms = -1;
  ASSERT_CUDA(cudaEventElapsedTime(&ms, from, to));
  EXPECT_GT(ms, 0);
  EXPECT_CUDA(cudaEventDestroy(from));
  EXPECT_CUDA(cudaEventDestroy(to));
}

TEST_F(StreamsTest, AHangingKernelLeavesItsStreamBusy) {
  const Stream s, other;
  const Buffer<float> x(kSize), y(kSize);
  fail_at(Failure::kHang, 1);
  ASSERT_CUDA(scale(s, x, 2.0f, kSize));
  ASSERT_CUDA(scale(other, y, 2.0f, kSize));
  EXPECT_CUDA(cudaStreamSynchronize(other));
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(50))
    ASSERT_EQ(cudaStreamQuery(s), cudaErrorNotReady);
  // A lost context ends everything.
  fail_at(Failure::kLaunch, 1);
  ASSERT_CUDA(scale(other, y, 2.0f, kSize));
  EXPECT_EQ(cudaStreamSynchronize(other), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
  EXPECT_EQ(scale(other, y, 2.0f, kSize), cudaErrorIllegalAddress);
  EXPECT_EQ(take_fault(), "");
}

TEST_F(StreamsTest, WorkOnTheDefaultStreamIsRefused) {
  const Buffer<float> x(kSize);
  EXPECT_EQ(scale(nullptr, x, 2.0f, kSize), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(take_fault(), HasSubstr("default stream"));
}

TEST_F(StreamsTest, AnAsynchronousCopyOfPageableMemoryIsRefused) {
  std::vector<float> host(kSize);
  const Buffer<float> x(kSize);
  const Stream s;
  EXPECT_EQ(cudaMemcpyAsync(x, host.data(), kSize * 4, cudaMemcpyHostToDevice, s), cudaErrorInvalidValue);
  EXPECT_THAT(take_fault(), HasSubstr("isn't pinned"));
  void* pinned;
  ASSERT_CUDA(cudaMallocHost(&pinned, kSize * 4));
  EXPECT_CUDA(cudaMemcpyAsync(x, pinned, kSize * 4, cudaMemcpyHostToDevice, s));
  EXPECT_CUDA(cudaFreeHost(pinned));
}

TEST_F(StreamsTest, AProcessWithAFaultEndsWith98) {
  EXPECT_EXIT(
      {
        Stream s;
        Buffer<float> x(256);
        reverse(s, Mistake::kNoBarrier, x, nullptr, 256);
        cudaStreamSynchronize(s);
        std::exit(0);
      },
      ::testing::ExitedWithCode(98), "cuda emulator.*shared memory");
}

}  // namespace
}  // namespace tessera::cuda_emulator
