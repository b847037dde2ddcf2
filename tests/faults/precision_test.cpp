// Gradients are reduced in float32, whatever computes them, and a long axis loses nothing to it.
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "core/philox.h"
#include "equality/random_case.h"
#include "faults/cases.h"

namespace tessera::faults {
namespace {

constexpr int kRandomPlans = 60;

TEST(Faults, fault_10_every_gradient_is_reduced_in_float32) {
  int reductions = 0;
  for (int number = 0; number < kRandomPlans; ++number) {
    const auto given = equality::random_case(static_cast<std::uint64_t>(number));
    const auto plan = test::prepare(given, given.yaml(), given.ranks).plan;
    const auto& train = plan.programs.at("train");
    for (const auto* section : {&train.body, &train.epilogues.at("apply")})
      for (const auto& i : section->instructions) {
        const auto* call = std::get_if<partition::CollectiveCall>(&i.what);
        if (call == nullptr || i.reason.find("gradient of ") == std::string::npos) continue;
        EXPECT_EQ(call->dtype, DType::kF32) << i.reason;
        for (const auto& segment : call->segments)
          EXPECT_EQ(train.values[static_cast<std::size_t>(segment.in)].dtype, DType::kF32) << i.reason;
        ++reductions;
      }
    for (const auto& [path, value] : train.gradients)
      EXPECT_EQ(train.values[static_cast<std::size_t>(value)].dtype, DType::kF32) << path;
  }
  EXPECT_GT(reductions, kRandomPlans);
}

TEST(Faults, fault_10_a_sum_over_a_long_axis_is_in_rank_order_and_as_exact_as_that) {
  constexpr int kRanks = 16;
  constexpr std::int64_t kCount = 501;  // no multiple of the ranks
  const auto term = [](int rank, std::int64_t i) {
    const auto bits = philox_bits(philox_key(1, "terms", "x"), static_cast<std::uint64_t>(i), rank);
    return static_cast<float>(std::ldexp(2 * uniform_01(bits) - 1, static_cast<int>(i + rank) % 12));
  };
  comm::run_on_threads(kRanks, [&](comm::World& world) {
    std::vector<std::int64_t> ranks(kRanks);
    std::iota(ranks.begin(), ranks.end(), 0);
    std::vector<float> x(kCount);
    for (std::int64_t i = 0; i < kCount; ++i) x[static_cast<std::size_t>(i)] = term(world.rank(), i);
    world.communicator(ranks).all_reduce({{x.data(), x.data(), kCount}}, DType::kF32, comm::Reduce::kSum);
    for (std::int64_t i = 0; i < kCount; ++i) {
      float in_order = term(0, i);
      double exact = in_order, magnitude = std::abs(in_order);
      for (int rank = 1; rank < kRanks; ++rank) {
        in_order += term(rank, i);
        exact += term(rank, i);
        magnitude += std::abs(term(rank, i));
      }
      ASSERT_EQ(x[static_cast<std::size_t>(i)], in_order) << "element " << i;
      ASSERT_LE(std::abs(x[static_cast<std::size_t>(i)] - exact), (kRanks - 1) * 0x1p-24 * magnitude);
    }
  });
}

}  // namespace
}  // namespace tessera::faults
