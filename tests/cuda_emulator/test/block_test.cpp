// Threads, barriers, warps: right kernels give right results in every order, wrong ones are faults in every order.
#include <numeric>

#include <gmock/gmock.h>

#include "harness.h"
#include "kernels.h"

namespace tessera::cuda_emulator {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kOrders = 9;

void set_thread_order(int n) {
  const ThreadOrder order = n == 0 ? ThreadOrder::kForward : n == 1 ? ThreadOrder::kReverse : ThreadOrder::kRandom;
  set_order(StreamOrder::kRandom, order, unsigned(n + 1));
}

class BlockTest : public EmulatorTest {
 protected:
  /// The fault of two blocks of the kernel with that mistake, in the n-th order.
  static std::string fault_of(Mistake mistake, int n) {
    set_thread_order(n);
    static float host[4] = {};
    const Stream s;
    const Buffer<float> x(512);
    EXPECT_CUDA(reverse(s, mistake, x, host, 512));
    const cudaError_t error = cudaStreamSynchronize(s);
    const std::string fault = take_fault();
    EXPECT_EQ(error, fault.empty() ? cudaSuccess : cudaErrorIllegalAddress);
    return fault;
  }
  static void expect_found(Mistake mistake, const std::string& sentence) {
    for (int n = 0; n < kOrders; ++n) EXPECT_THAT(fault_of(mistake, n), HasSubstr(sentence)) << "order " << n;
  }
};

TEST_F(BlockTest, EveryThreadOrderGivesTheSame) {
  for (int n = 0; n < kOrders; ++n) {
    set_thread_order(n);
    const Stream s;
    const Buffer<float> x(512);
    ASSERT_CUDA(reverse(s, Mistake::kNone, x, nullptr, 512));
    ASSERT_CUDA(cudaStreamSynchronize(s));
    EXPECT_EQ(take_fault(), "");
    const std::vector<float> got = x.host();
    for (int i = 0; i < 512; ++i) ASSERT_EQ(got[std::size_t(i)], float(255 - i % 256));
  }
}

TEST_F(BlockTest, ShufflesAndSharedMemorySumRows) {
  constexpr int kRows = 5, kCols = 101;
  std::vector<float> values(kRows * kCols);
  std::iota(values.begin(), values.end(), 0.0f);
  const Buffer<float> x(values), sums(kRows);
  const Stream s;
  ASSERT_CUDA(sum_rows(s, x, sums, kRows, kCols));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  const std::vector<float> got = sums.host();
  for (int r = 0; r < kRows; ++r) EXPECT_EQ(got[std::size_t(r)], float(kCols * (r * kCols + kCols / 2)));
}

TEST_F(BlockTest, WarpOperationsGiveWhatAWarpGives) {
  for (int n = 0; n < kOrders; ++n) {
    set_thread_order(n);
    const Buffer<int> out(64 * 8);
    const Stream s;
    ASSERT_CUDA(warp_operations(s, out));
    ASSERT_CUDA(cudaStreamSynchronize(s));
    const std::vector<int> got = out.host();
    for (int t = 0; t < 64; ++t) {
      const int lane = t % 32, warp = t - lane;
      const int* mine = &got[std::size_t(t) * 8];
      EXPECT_EQ(mine[0], warp + 5);
      EXPECT_EQ(mine[1], lane < 28 ? t + 4 : t);
      EXPECT_EQ(mine[2], lane % 8 >= 4 ? t - 4 : t);
      EXPECT_EQ(mine[3], t ^ 3);
      EXPECT_EQ(mine[4], 7);
      EXPECT_EQ(mine[5], -9);
      EXPECT_EQ(mine[6], lane < 16 ? 1 : 0);
      EXPECT_EQ(mine[7], 16);
    }
  }
}

TEST_F(BlockTest, LanesThatExchangeBySharedMemoryWantASyncwarp) {
  for (int n = 0; n < kOrders; ++n) {
    set_thread_order(n);
    std::vector<float> values(64);
    std::iota(values.begin(), values.end(), 0.0f);
    const Buffer<float> x(values);
    const Stream s;
    ASSERT_CUDA(sum_neighbours(s, true, x, 64));
    ASSERT_CUDA(cudaStreamSynchronize(s));
    const std::vector<float> got = x.host();
    for (int i = 0; i < 64; ++i) EXPECT_EQ(got[std::size_t(i)], float(i + (i ^ 1) + (i ^ 2)));
    ASSERT_CUDA(sum_neighbours(s, false, x, 64));
    EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
    EXPECT_THAT(take_fault(), HasSubstr("shared memory"));
  }
}

TEST_F(BlockTest, AtomicsOfSeveralBlocksAreNoRace) {
  std::vector<int> ids(1000);
  std::iota(ids.begin(), ids.end(), 0);
  const Buffer<int> device_ids(ids), counts(std::vector<int>(4, 0));
  const Stream s;
  ASSERT_CUDA(histogram(s, device_ids, counts, 1000));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  EXPECT_THAT(counts.host(), Each(250));
}

TEST_F(BlockTest, NeighbouringBytesAreNoRace) {
  const Buffer<unsigned char> x(1000);
  const Stream s;
  ASSERT_CUDA(write_bytes(s, x, 1000));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  EXPECT_EQ(x.host()[777], 777 % 256);
}

TEST_F(BlockTest, FindsAMissingBarrier) { expect_found(Mistake::kNoBarrier, "shared memory"); }
TEST_F(BlockTest, FindsABarrierInABranch) { expect_found(Mistake::kBarrierInBranch, "__syncthreads (kernels.cu:"); }
TEST_F(BlockTest, FindsAReturnBeforeABarrier) { expect_found(Mistake::kEarlyReturn, "returned"); }
TEST_F(BlockTest, FindsAShuffleOfHalfAWarp) { expect_found(Mistake::kHalfWarpShuffle, "kernels.cu:"); }
TEST_F(BlockTest, FindsAHostPointer) { expect_found(Mistake::kHostPointer, "read of host memory by a kernel"); }
TEST_F(BlockTest, FindsAReadOfUnwrittenSharedMemory) { expect_found(Mistake::kUnwrittenShared, "has not written"); }
TEST_F(BlockTest, FindsAWritePastSharedMemory) {
  expect_found(Mistake::kSharedPastTheEnd, "dynamic shared memory: byte");
}
TEST_F(BlockTest, FindsASumThatBlocksShare) { expect_found(Mistake::kBlocksShareASum, "of another block"); }
TEST_F(BlockTest, FindsAWriteOfWhatOtherBlocksRead) {
  for (int n = 0; n < kOrders; ++n) {
    set_thread_order(n);
    const Stream s;
    const Buffer<float> x(512), shared(std::vector<float>(1, 0.0f));
    ASSERT_CUDA(reverse(s, Mistake::kWriteOfRead, x, shared, 512));
    EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
    EXPECT_THAT(take_fault(), HasSubstr("race in global memory: thread 0")) << "order " << n;
  }
}
TEST_F(BlockTest, FindsAMisalignedAccess) {
  expect_found(Mistake::kMisaligned, "misaligned access: an address 4 bytes past a multiple of 16 at kernels.cu:");
}
TEST_F(BlockTest, FindsAWriteOfAConstant) {
  expect_found(Mistake::kWriteOfConstant, "write of host memory by a kernel");
}
TEST_F(BlockTest, FindsAnIndexThatOverflows) { expect_found(Mistake::kOverflow, "integer overflow at kernels.cu:"); }
TEST_F(BlockTest, FindsAnIndexPastAThreadsOwnArray) {
  expect_found(Mistake::kLocalBounds, "index out of an array's bounds at kernels.cu:");
}
TEST_F(BlockTest, FindsAWritePastTheEnd) { expect_found(Mistake::kPastTheEnd, "pass the end of the allocation"); }
TEST_F(BlockTest, FindsAWriteFarPastTheEnd) { expect_found(Mistake::kFarPastTheEnd, "write: "); }

}  // namespace
}  // namespace tessera::cuda_emulator
