#include "train/gpu.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace tessera::train {
namespace {

GpuView view(const std::string& host, int local_rank, int local_size, std::vector<std::string> bus_ids) {
  return {.host = host, .local_rank = local_rank, .local_size = local_size, .bus_ids = std::move(bus_ids)};
}

TEST(AssignGpus, ARankTakesTheGpuOfItsNumberOnTheHost) {
  EXPECT_EQ(assign_gpus(
                {view("a", 0, 2, {"1", "2", "3"}), view("a", 1, 2, {"1", "2", "3"}), view("b", 0, 1, {"1", "2", "3"})}),
            (std::vector<int>{0, 1, 0}));
}

TEST(AssignGpus, TheOnlyVisibleGpuIsDeviceZero) {
  EXPECT_EQ(assign_gpus({view("a", 0, 2, {"1"}), view("a", 1, 2, {"2"})}), (std::vector<int>{0, 0}));
}

TEST(AssignGpus, TwoRanksOnOneGpuAreNamed) {
  EXPECT_CONFIG_ERROR(assign_gpus({view("a", 0, 2, {"1"}), view("a", 1, 2, {"1"})}),
                      "rank 0 and rank 1 on a have the same GPU (1)");
}

TEST(AssignGpus, TheSameBusIdOnTwoHostsIsTwoGpus) {
  EXPECT_EQ(assign_gpus({view("a", 0, 1, {"1"}), view("b", 0, 1, {"1"})}), (std::vector<int>{0, 0}));
}

TEST(AssignGpus, MoreRanksThanGpusAreNamed) {
  const auto of = [](int rank) { return view("a", rank, 3, {"1", "2"}); };
  EXPECT_CONFIG_ERROR(assign_gpus({of(0), of(1), of(2)}),
                      "3 ranks run on a, which has 2 GPUs: start at most one rank a GPU");
}

TEST(AssignGpus, ARankWithoutAGpuSaysWhy) {
  auto blind = view("b", 0, 1, {});
  blind.why_none = "there is no NVIDIA driver here";
  EXPECT_CONFIG_ERROR(assign_gpus({view("a", 0, 1, {"1"}), blind}),
                      "rank 1 on b has no GPU: there is no NVIDIA driver here");
}

TEST(AssignGpus, ALauncherThatCountsOtherwiseIsRefused) {
  auto first = view("a", 0, 1, {"1", "2"});
  first.launcher_rank = "1";
  EXPECT_CONFIG_ERROR(assign_gpus({first}), "rank 0 is number 0 on a for MPI and number 1 for the launcher");
}

TEST(HardwareOfGpu, KnownCardsHaveTheirProfileAndOthersTheNearestOlder) {
  EXPECT_EQ(hardware_of_gpu("NVIDIA H200", "9.0"), "h200");
  EXPECT_EQ(hardware_of_gpu("NVIDIA A100-SXM4-80GB", "8.0"), "a100-80");
  EXPECT_EQ(hardware_of_gpu("NVIDIA L40S", "8.9"), "a100-80");
  EXPECT_EQ(hardware_of_gpu("NVIDIA GH200 480GB", "9.0"), "h200");
}

}  // namespace
}  // namespace tessera::train
