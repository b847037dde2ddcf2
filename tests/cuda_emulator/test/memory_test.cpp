// Device memory: its bounds, its size, what is freed, who may touch it.
#include <set>

#include <gmock/gmock.h>

#include "harness.h"
#include "kernels.h"

namespace tessera::cuda_emulator {
namespace {

using ::testing::HasSubstr;

class MemoryTest : public EmulatorTest {};

TEST_F(MemoryTest, NewMemoryIsNaN) {
  const Buffer<float> x(10);
  for (const float v : x.host()) EXPECT_NE(v, v);
}

TEST_F(MemoryTest, HoldsAsMuchAsItIsToldTo) {
  constexpr std::size_t kMiB = 1 << 20;
  set_device_memory(4 * kMiB);
  void *x, *y;
  ASSERT_CUDA(cudaMalloc(&x, 3 * kMiB));
  std::size_t free, total;
  ASSERT_CUDA(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(free, kMiB);
  EXPECT_EQ(total, 4 * kMiB);
  EXPECT_EQ(cudaMalloc(&y, 2 * kMiB), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_CUDA(cudaGetLastError());
  ASSERT_CUDA(cudaFree(x));
  EXPECT_CUDA(cudaMalloc(&y, 2 * kMiB));
  ASSERT_CUDA(cudaFree(y));
  set_device_memory(std::size_t(4) << 30);
}

TEST_F(MemoryTest, AllocationsFailWhenToldTo) {
  fail_at(Failure::kMalloc, 2);
  void *x, *y;
  EXPECT_CUDA(cudaMalloc(&x, 1));
  EXPECT_EQ(cudaMalloc(&y, 1), cudaErrorMemoryAllocation);
  EXPECT_CUDA(cudaFree(x));
  cudaGetLastError();
}

TEST_F(MemoryTest, AKernelMayNotUseWhatWasFreed) {
  const Stream s;
  float* freed;
  {
    const Buffer<float> x(100);
    freed = x;
    ASSERT_CUDA(scale(s, x, 2.0f, 100));
  }
  ASSERT_CUDA(scale(s, freed, 2.0f, 100));
  EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
  EXPECT_THAT(take_fault(), HasSubstr("was freed"));
}

TEST_F(MemoryTest, ACopyMayNotPassTheEnd) {
  const Buffer<float> x(100), y(200);
  const Stream s;
  EXPECT_EQ(cudaMemcpyAsync(x, y, 101 * 4, cudaMemcpyDeviceToDevice, s), cudaErrorInvalidValue);
  EXPECT_THAT(take_fault(), HasSubstr("the target: 404 bytes there pass the end"));
  EXPECT_EQ(cudaMemsetAsync(x, 0, 101 * 4, s), cudaErrorInvalidValue);
  EXPECT_THAT(take_fault(), HasSubstr("pass the end"));
}

TEST_F(MemoryTest, PointersTellWhatTheyAre) {
  const Buffer<float> x(100);
  cudaPointerAttributes a;
  ASSERT_CUDA(cudaPointerGetAttributes(&a, x + 99));
  EXPECT_EQ(a.type, cudaMemoryTypeDevice);
  EXPECT_EQ(a.device, 0);
  void* pinned;
  ASSERT_CUDA(cudaHostAlloc(&pinned, 100, cudaHostAllocDefault));
  ASSERT_CUDA(cudaPointerGetAttributes(&a, pinned));
  EXPECT_EQ(a.type, cudaMemoryTypeHost);
  ASSERT_CUDA(cudaPointerGetAttributes(&a, &a));
  EXPECT_EQ(a.type, cudaMemoryTypeUnregistered);
  ASSERT_CUDA(cudaFreeHost(pinned));
}

TEST_F(MemoryTest, TheProgramMayNotTouchWhatNobodyAllocated) {
  float* freed;
  { freed = Buffer<float>(100); }
  EXPECT_EXIT(*static_cast<volatile float*>(freed) = 1, ::testing::ExitedWithCode(98),
              "the program touched device memory");
}

TEST_F(MemoryTest, TheProgramMayNotTouchDeviceMemory) {
  const Buffer<float> x(std::vector<float>(100, 1.0f));
  EXPECT_EXIT(std::exit(static_cast<volatile float*>(x.data)[5] > 0), ::testing::ExitedWithCode(98),
              "the program touched device memory");
}

TEST_F(MemoryTest, FreeingWaitsForTheMemorysDevice) {
  set_order(StreamOrder::kLate, ThreadOrder::kRandom);
  const Stream s;
  {
    const Buffer<float> x(100);
    ASSERT_CUDA(scale(s, x, 2.0f, 100));
    ASSERT_CUDA(cudaSetDevice(1));
  }
  ASSERT_CUDA(cudaSetDevice(0));
  EXPECT_CUDA(cudaStreamSynchronize(s));
  EXPECT_EQ(take_fault(), "");
}

TEST_F(MemoryTest, AHostHasEightCardsOnDifferentBuses) {
  int count = 0;
  ASSERT_CUDA(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, 8);
  std::set<std::string> buses;
  for (int d = 0; d < count; ++d) {
    char text[32];
    ASSERT_CUDA(cudaDeviceGetPCIBusId(text, sizeof text, d));
    buses.insert(text);
    int peer = 0;
    ASSERT_CUDA(cudaDeviceCanAccessPeer(&peer, d, (d + 1) % count));
    EXPECT_EQ(peer, 1);
  }
  EXPECT_EQ(buses.size(), 8u);
  EXPECT_EQ(cudaSetDevice(8), cudaErrorInvalidDevice);
  cudaGetLastError();
}

}  // namespace
}  // namespace tessera::cuda_emulator
