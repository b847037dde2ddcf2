// What kernels move, against what is known of them.
#include "harness.h"
#include "kernels.h"

namespace tessera::cuda_emulator {
namespace {

class TrafficTest : public EmulatorTest {};

TEST_F(TrafficTest, AnElementwiseKernelReadsAndWritesEachElementOnce) {
  const Buffer<float> x(1024);
  const Stream s;
  reset_traffic();
  ASSERT_CUDA(scale(s, x, 2.0f, 1024));
  ASSERT_CUDA(scale(s, x, 2.0f, 1024));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  const Traffic t = traffic();
  EXPECT_EQ(t.launches, 2u);
  EXPECT_EQ(t.requested.read, 2u * 4096);
  EXPECT_EQ(t.requested.written, 2u * 4096);
  EXPECT_EQ(t.unique.read, 2u * 4096);
  EXPECT_EQ(t.unique.written, 2u * 4096);
}

TEST_F(TrafficTest, SectorsCountWholeAndOnce) {
  // 8 rows of 1,024 floats; 8 sums, which lie in one sector.
  const Buffer<float> x(std::vector<float>(8 * 1024, 1.0f)), sums(8);
  const Stream s;
  reset_traffic();
  ASSERT_CUDA(sum_rows(s, x, sums, 8, 1024));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  const Traffic t = traffic();
  EXPECT_EQ(t.requested.read, 8u * 4096);
  EXPECT_EQ(t.unique.read, 8u * 4096);
  EXPECT_EQ(t.requested.written, 8u * 4);
  EXPECT_EQ(t.unique.written, 32u);
  EXPECT_EQ(t.unique.sum(), 8u * 4096 + 32);
}

TEST_F(TrafficTest, WhatIsReadAgainIsRequestedAgain) {
  // All ids but the counts': 1,000 atomics on 4 counters.
  const Buffer<int> ids(std::vector<int>(1000, 1)), counts(std::vector<int>(4, 0));
  const Stream s;
  reset_traffic();
  ASSERT_CUDA(histogram(s, ids, counts, 1000));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  const Traffic t = traffic();
  EXPECT_EQ(t.requested.written, 4000u);
  EXPECT_EQ(t.unique.written, 32u);
  EXPECT_EQ(t.requested.read, 8000u);
  EXPECT_EQ(t.unique.read, 4000u + 32);
}

TEST_F(TrafficTest, CopiesAndSetsCountOnTheSideOfTheDevice) {
  const Buffer<float> x(std::vector<float>(100, 1.0f)), y(100);
  const Stream s;
  reset_traffic();
  ASSERT_CUDA(cudaMemcpyAsync(y, x, 400, cudaMemcpyDeviceToDevice, s));
  ASSERT_CUDA(cudaMemsetAsync(y, 0, 200, s));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  y.host();
  const Traffic t = traffic();
  EXPECT_EQ(t.copies, 3u);
  EXPECT_EQ(t.copied.read, 400u + 400);
  EXPECT_EQ(t.copied.written, 400u + 200);
  EXPECT_EQ(t.launches, 0u);
  EXPECT_EQ(t.unique.sum(), 0u);
}

}  // namespace
}  // namespace tessera::cuda_emulator
