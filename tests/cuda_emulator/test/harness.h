#pragma once

#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda_emulator/control.h"

namespace tessera::cuda_emulator {

#define ASSERT_CUDA(call) ASSERT_EQ(call, cudaSuccess)
#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

struct Stream {
  Stream() { EXPECT_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(s); }
  Stream(const Stream&) = delete;
  operator cudaStream_t() const { return s; }
  cudaStream_t s = nullptr;
};

struct EventHandle {
  EventHandle() { EXPECT_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming)); }
  ~EventHandle() { cudaEventDestroy(e); }
  EventHandle(const EventHandle&) = delete;
  operator cudaEvent_t() const { return e; }
  cudaEvent_t e = nullptr;
};

/// Device memory of n elements.
template <typename T>
struct Buffer {
  explicit Buffer(std::size_t n) : size(n) { EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&data), n * sizeof(T))); }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    EXPECT_CUDA(cudaMemcpy(data, values.data(), size * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Buffer() { cudaFree(data); }
  Buffer(const Buffer&) = delete;
  operator T*() const { return data; }
  std::vector<T> host() const {
    std::vector<T> values(size);
    EXPECT_CUDA(cudaMemcpy(values.data(), data, size * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
  T* data = nullptr;
  std::size_t size;
};

/// Each test begins without a fault, in a random order of its own: --gtest_repeat tries others.
class EmulatorTest : public ::testing::Test {
 protected:
  EmulatorTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own: streams don't run on after a fork
    set_order(StreamOrder::kRandom, ThreadOrder::kRandom, seed_);
    set_patience(std::chrono::seconds(20));  // nothing depends on how fast the machine is
    take_fault();
  }
  ~EmulatorTest() override {
    EXPECT_EQ(take_fault(), "");
    if (HasFailure()) std::printf("with seed %u of TESSERA_EMULATED_SEED\n", seed_);
  }

 private:
  static unsigned next_seed() {
    const char* first = std::getenv("TESSERA_EMULATED_SEED");
    static unsigned seed = first == nullptr ? 1 : unsigned(std::atoi(first));
    return seed++;
  }
  unsigned seed_ = next_seed();
};

}  // namespace tessera::cuda_emulator
