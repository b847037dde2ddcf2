// Captures: what is recorded runs as often as it is launched; what breaks a capture on a device is a fault.
#include <functional>
#include <thread>

#include <gmock/gmock.h>

#include "harness.h"
#include "kernels.h"

namespace tessera::cuda_emulator {
namespace {

using ::testing::HasSubstr;

constexpr int kSize = 1000;

class GraphTest : public EmulatorTest {
 protected:
  GraphTest() {
    const Buffer<float> x(256);
    const Stream s;
    EXPECT_CUDA(scale(s, x, 1.0f, 256));  // loaded, as after a warm-up
    EXPECT_CUDA(cudaStreamSynchronize(s));
  }

  /// The fault of a capture of one kernel, with `call` in the middle.
  std::string fault_with(const std::function<void(cudaStream_t)>& call, cudaError_t end) {
    const Buffer<float> x(kSize);
    const Stream s;
    EXPECT_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    EXPECT_CUDA(scale(s, x, 2.0f, kSize));
    call(s);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(s, &graph), end);
    EXPECT_EQ(graph != nullptr, end == cudaSuccess);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    return take_fault();
  }
};

/// x *= 2 on one stream, y *= 3 on another that forks and joins, then y = x.
cudaGraphExec_t fork_and_join(cudaStream_t s, cudaStream_t side, float* x, float* y) {
  const EventHandle fork, join;
  EXPECT_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  EXPECT_CUDA(cudaEventRecord(fork, s));
  EXPECT_CUDA(cudaStreamWaitEvent(side, fork, 0));
  EXPECT_CUDA(scale(side, y, 3.0f, kSize));
  EXPECT_CUDA(scale(s, x, 2.0f, kSize));
  EXPECT_CUDA(cudaEventRecord(join, side));
  EXPECT_CUDA(cudaStreamWaitEvent(s, join, 0));
  EXPECT_CUDA(cudaMemcpyAsync(y + kSize, y, kSize * 4, cudaMemcpyDeviceToDevice, s));
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(s, &graph));
  std::size_t nodes = 0;
  EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 3u);
  cudaGraphExec_t exec = nullptr;
  EXPECT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_CUDA(cudaGraphDestroy(graph));
  return exec;
}

TEST_F(GraphTest, RunsWhatWasCapturedAsOftenAsItIsLaunched) {
  for (const StreamOrder order : {StreamOrder::kEager, StreamOrder::kLate, StreamOrder::kRandom}) {
    set_order(order, ThreadOrder::kRandom, 3);
    const Buffer<float> x(std::vector<float>(kSize, 1.0f)), y(std::vector<float>(2 * kSize, 1.0f));
    const Stream s, side, other;
    const cudaGraphExec_t exec = fork_and_join(s, side, x, y);
    EXPECT_EQ(x.host()[0], 1.0f) << "a capture runs nothing";
    ASSERT_CUDA(cudaGraphUpload(exec, s));
    ASSERT_CUDA(cudaGraphLaunch(exec, s));
    ASSERT_CUDA(cudaGraphLaunch(exec, other));  // after the first, though on another stream
    ASSERT_CUDA(cudaStreamSynchronize(other));
    EXPECT_EQ(x.host()[0], 4.0f);
    EXPECT_EQ(y.host()[0], 9.0f);
    EXPECT_EQ(y.host()[kSize], 9.0f);
    ASSERT_CUDA(cudaGraphExecDestroy(exec));
  }
}

TEST_F(GraphTest, AFailureCountsLaunchedKernels) {
  const Buffer<float> x(std::vector<float>(kSize, 1.0f)), y(std::vector<float>(2 * kSize, 1.0f));
  const Stream s, side;
  fail_at(Failure::kLaunch, 3);
  const cudaGraphExec_t exec = fork_and_join(s, side, x, y);  // two kernels
  ASSERT_CUDA(cudaGraphLaunch(exec, s));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  ASSERT_CUDA(cudaGraphLaunch(exec, s));
  EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
  take_fault();
  ASSERT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(GraphTest, FindsAWaitOfTheHost) {
  EXPECT_THAT(fault_with([](cudaStream_t s) { EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported); },
                         cudaErrorStreamCaptureInvalidated),
              HasSubstr("cudaStreamSynchronize on a stream that is captured"));
  EXPECT_THAT(fault_with([](cudaStream_t) { EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess); },
                         cudaErrorStreamCaptureInvalidated),
              HasSubstr("cudaDeviceSynchronize while a stream is captured"));
}

TEST_F(GraphTest, FindsAQueryOfAnEvent) {
  const EventHandle event;
  EXPECT_THAT(fault_with([&](cudaStream_t) { EXPECT_NE(cudaEventQuery(event), cudaSuccess); },
                         cudaErrorStreamCaptureInvalidated),
              HasSubstr("cudaEventQuery while a stream is captured"));
  EXPECT_THAT(fault_with(
                  [&](cudaStream_t s) {
                    EXPECT_CUDA(cudaEventRecord(event, s));
                    EXPECT_EQ(cudaEventSynchronize(event), cudaErrorCapturedEvent);
                  },
                  cudaErrorStreamCaptureInvalidated),
              HasSubstr("cudaEventSynchronize on an event that is captured"));
}

TEST_F(GraphTest, FindsAnAllocation) {
  void* p = nullptr;
  EXPECT_THAT(
      fault_with([&](cudaStream_t) { EXPECT_NE(cudaMalloc(&p, 1), cudaSuccess); }, cudaErrorStreamCaptureInvalidated),
      HasSubstr("cudaMalloc while a stream is captured"));
}

TEST_F(GraphTest, FindsACopyOfPageableMemory) {
  float host = 0;
  const Buffer<float> x(1);
  EXPECT_THAT(
      fault_with(
          [&](cudaStream_t s) { EXPECT_NE(cudaMemcpyAsync(&host, x, 4, cudaMemcpyDeviceToHost, s), cudaSuccess); },
          cudaErrorStreamCaptureInvalidated),
      HasSubstr("isn't pinned"));
}

TEST_F(GraphTest, FindsWorkOnTheDefaultStream) {
  const Buffer<float> x(kSize);
  EXPECT_THAT(fault_with([&](cudaStream_t) { EXPECT_NE(scale(nullptr, x, 2.0f, kSize), cudaSuccess); },
                         cudaErrorStreamCaptureInvalidated),
              HasSubstr("default stream"));
}

TEST_F(GraphTest, FindsAStreamThatHasNotJoined) {
  const Stream side;
  const EventHandle fork;
  const Buffer<float> x(kSize);
  EXPECT_THAT(fault_with(
                  [&](cudaStream_t s) {
                    EXPECT_CUDA(cudaEventRecord(fork, s));
                    EXPECT_CUDA(cudaStreamWaitEvent(side, fork, 0));
                    EXPECT_CUDA(scale(side, x, 2.0f, kSize));
                  },
                  cudaErrorStreamCaptureUnjoined),
              HasSubstr("has joined"));
  EXPECT_CUDA(cudaStreamSynchronize(side));
}

TEST_F(GraphTest, FindsAWaitForAnEventOutside) {
  const Stream outside;
  const EventHandle event;
  EXPECT_CUDA(cudaEventRecord(event, outside));
  EXPECT_THAT(
      fault_with([&](cudaStream_t s) { EXPECT_EQ(cudaStreamWaitEvent(s, event, 0), cudaErrorStreamCaptureIsolation); },
                 cudaErrorStreamCaptureInvalidated),
      HasSubstr("an event outside the capture"));
}

TEST_F(GraphTest, FindsAFirstLaunch) {
  const Buffer<float> x(4), sums(1);
  EXPECT_THAT(fault_with([&](cudaStream_t s) { EXPECT_CUDA(sum_rows_twice(s, x, sums, 1, 4)); }, cudaSuccess),
              HasSubstr("first launch is captured"));
}

TEST_F(GraphTest, AnotherThreadMayQueryEvents) {
  const EventHandle event;
  const auto query_elsewhere = [&](cudaStream_t) { std::thread([&] { cudaEventQuery(event); }).join(); };
  EXPECT_EQ(fault_with(query_elsewhere, cudaSuccess), "");
  const Stream s;
  ASSERT_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  query_elsewhere(s);
  cudaStreamCaptureStatus status;
  ASSERT_CUDA(cudaStreamIsCapturing(s, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
  cudaGraph_t graph;
  EXPECT_EQ(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_THAT(take_fault(), HasSubstr("cudaEventQuery"));
}

}  // namespace
}  // namespace tessera::cuda_emulator
