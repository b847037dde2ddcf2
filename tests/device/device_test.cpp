#include <cstdint>

#include <gtest/gtest.h>

#include "core/error.h"
#include "device/cpu.h"
#include "device/cuda.h"
#include "device/harness.h"

namespace tessera::device::test {
namespace {

TEST(CpuDevice, AllocatesZeroedAlignedMemoryOfAnySize) {
  for (const std::int64_t bytes : {0, 1, 1000, 5 << 20}) {
    const auto memory = device_with(1).allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 256, 0U);
    for (std::int64_t i = 0; i < bytes; i += 997) ASSERT_EQ(static_cast<const char*>(memory.get())[i], 0);
  }
}

TEST(CpuDevice, CopiesInAndOut) {
  auto& device = device_with(1);
  const auto memory = device.allocate(16);
  const std::int32_t in[4]{1, 2, 3, 4};
  std::int32_t out[4]{};
  device.copy_in(memory.get(), in, sizeof in);
  device.copy_out(out, memory.get(), sizeof out);
  EXPECT_TRUE(std::equal(in, in + 4, out));
}

TEST(CpuDevice, UnknownKernelIsAnInternalErrorThatNamesTheNearest) {
  try {
    device_with(1).make_kernel({"softmaxx", {}, {}, {}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInternal);
    EXPECT_NE(std::string(e.what()).find("did you mean 'softmax'?"), std::string::npos) << e.what();
  }
}

TEST(CpuDevice, NoThreadIsAConfigError) { EXPECT_THROW(make_cpu_device({.threads = 0}), Error); }

TEST(CudaBackend, ThatIsNotThereIsOneSentence) {
  try {
    for (const auto& gpu : cuda_backend().gpus()) EXPECT_FALSE(gpu.bus_id.empty());
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kConfig);
    EXPECT_TRUE(std::string(e.what()).ends_with("use device: cpu")) << e.what();
  }
}

TEST(CpuFeatures, NameWhatResultsDependOn) {
  const auto f = cpu_features();
  EXPECT_GE(isa_rank(f.isa), 0);
  EXPECT_FALSE(f.cores.empty());
  for (const auto& text : {f.model, f.onednn, f.openblas, f.openblas_core}) EXPECT_FALSE(text.empty());
  EXPECT_LT(isa_rank("sse4"), isa_rank("avx3"));
  EXPECT_THROW(isa_rank("mmx"), Error);
}

TEST(CpuFeatures, MeasuredSpeedIsPositive) {
  const auto speed = measure(device_with(1));
  EXPECT_GT(speed.flops_f32, 1e8);
  EXPECT_GT(speed.bandwidth, 1e8);
  EXPECT_GT(speed.kernel_seconds, 0);
  EXPECT_LT(speed.kernel_seconds, 1e-3);
}

}  // namespace
}  // namespace tessera::device::test
