// The environment's settings, each in a process of its own.
#include <cstdlib>
#include <functional>

#include "harness.h"
#include "kernels.h"

namespace tessera::cuda_emulator {
namespace {

class SettingsTest : public EmulatorTest {
 protected:
  /// A program under that setting ends with 0 if `holds`.
  static void expect_under(const char* name, const char* value, const std::function<bool()>& holds) {
    setenv(name, value, 1);
    EXPECT_EXIT(std::exit(holds() ? 0 : 1), ::testing::ExitedWithCode(0), "") << name << "=" << value;
    unsetenv(name);
  }
};

TEST_F(SettingsTest, CardsMayBeFewOrNone) {
  int count = 7;
  expect_under("TESSERA_EMULATED_GPUS", "2", [&] { return cudaGetDeviceCount(&count) == cudaSuccess && count == 2; });
  expect_under("TESSERA_EMULATED_GPUS", "0", [&] {
    void* p;
    return cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0 && cudaMalloc(&p, 1) == cudaErrorNoDevice;
  });
}

TEST_F(SettingsTest, ADriverMayBeTooOld) {
  expect_under("TESSERA_EMULATED_DRIVER", "11080", [] {
    int count, version = 0;
    return cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver && cudaDriverGetVersion(&version) == cudaSuccess &&
           version == 11080;
  });
}

TEST_F(SettingsTest, MemoryIsWhatItIsSetTo) {
  expect_under("TESSERA_EMULATED_MEMORY", "1048576", [] {
    void* p;
    std::size_t free, total;
    return cudaMalloc(&p, 2 << 20) == cudaErrorMemoryAllocation && cudaMemGetInfo(&free, &total) == cudaSuccess &&
           total == 1 << 20 && free == total;
  });
}

TEST_F(SettingsTest, TheNthCallFails) {
  expect_under("TESSERA_EMULATED_FAIL", "launch:2,malloc:2", [] {
    const Stream s;
    const Buffer<float> x(100);
    void* p;
    if (cudaMalloc(&p, 1) != cudaErrorMemoryAllocation) return false;
    if (scale(s, x, 2.0f, 100) != cudaSuccess || cudaStreamSynchronize(s) != cudaSuccess) return false;
    return scale(s, x, 2.0f, 100) == cudaSuccess && cudaStreamSynchronize(s) == cudaErrorIllegalAddress;
  });
}

TEST_F(SettingsTest, AFailureMayBeOneRanks) {
  void* p;
  setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  expect_under("TESSERA_EMULATED_FAIL", "malloc:1@3", [&] { return cudaMalloc(&p, 1) == cudaErrorMemoryAllocation; });
  expect_under("TESSERA_EMULATED_FAIL", "malloc:1@2", [&] { return cudaMalloc(&p, 1) == cudaSuccess; });
  unsetenv("OMPI_COMM_WORLD_RANK");
}

TEST_F(SettingsTest, AWrongValueEndsTheProgram) {
  for (const auto& [name, value] : {std::pair{"TESSERA_EMULATED_GPUS", "many"},
                                    {"TESSERA_EMULATED_ORDER", "early"},
                                    {"TESSERA_EMULATED_THREADS", "none"},
                                    {"TESSERA_EMULATED_EPILOGUES", "some"},
                                    {"TESSERA_EMULATED_FAIL", "nccl"},
                                    {"TESSERA_EMULATED_FAIL", "disk:3"}}) {
    setenv(name, value, 1);
    EXPECT_EXIT(std::exit(0), ::testing::ExitedWithCode(98), std::string(name) + "=" + value + ": expected");
    unsetenv(name);
  }
}

}  // namespace
}  // namespace tessera::cuda_emulator
