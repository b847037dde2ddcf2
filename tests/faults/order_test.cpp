// Collectives come from the plan alone: in one order on all ranks, and who does not come is named.
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "device/device.h"
#include "equality/random_case.h"
#include "faults/cases.h"
#include "faults/recording_world.h"
#include "runtime/executor.h"

namespace tessera::faults {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRandomPlans = 40;

TEST(Faults, fault_23_all_ranks_of_a_group_make_the_same_calls_in_the_same_order) {
  std::size_t calls = 0;
  for (int number = 0; number < kRandomPlans; ++number) {
    const auto given = equality::random_case(static_cast<std::uint64_t>(number));
    SCOPED_TRACE(given.yaml());
    Recording recording;
    test::run(test::prepare(given, given.yaml(), given.ranks), 2,
              {{}, [&](comm::World& world) { return recording.around(world); }});
    for (const auto& [group, by_rank] : recording.groups) {
      ASSERT_EQ(by_rank.size(), group.size()) << "a rank never spoke in its group";
      for (const auto& [rank, sequence] : by_rank) {
        EXPECT_EQ(sequence, by_rank.begin()->second) << "rank " << rank;
        calls += sequence.size();
      }
    }
  }
  EXPECT_GT(calls, 1000u);
}

/// One rank after another tries to run its own plan.
std::string sentence_of(const test::Prepared& prepared, const test::Prepared& of_rank_1) {
  try {
    comm::run_on_threads(static_cast<int>(prepared.plan.mesh.ranks()), [&](comm::World& world) {
      const auto device = device::make_cpu_device({});
      runtime::Executor executor(world.rank() == 1 ? of_rank_1.plan : prepared.plan, *device, world, {});
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfig);
    return error.what();
  }
  return "";
}

test::Case two_layers(const Mesh& mesh) {
  return on(make_case("{x: {shape: [6]}}",
                      "    - Dense: {name: dense_1, units: 8, activation: tanh}\n"
                      "    - Dense: {name: dense_2, units: 4}\n"),
            mesh);
}

TEST(Faults, fault_23_ranks_whose_plans_order_collectives_differently_do_not_start) {
  const auto given = two_layers(model_parallel(4, "[2, 2]", "[data, model]", "data",
                                               "{dense_1/kernel: [null, model], dense_2/kernel: [model, null]}"));
  const auto prepared = test::prepare(given, given.yaml(), given.ranks);
  EXPECT_EQ(sentence_of(prepared, prepared), "");
  auto other = prepared;
  auto& body = other.plan.programs.at("train").body.instructions;
  std::vector<std::size_t> collectives;
  for (std::size_t i = 0; i < body.size(); ++i)
    if (std::holds_alternative<partition::CollectiveCall>(body[i].what)) collectives.push_back(i);
  ASSERT_GE(collectives.size(), 2u);
  std::swap(body[collectives[0]].what, body[collectives[1]].what);
  EXPECT_THAT(sentence_of(prepared, other), AllOf(HasSubstr("rank 1 on "), HasSubstr("another plan than rank 0")));
}

TEST(Faults, fault_24_the_watchdog_names_rank_step_instruction_and_layer) {
  const auto given = two_layers(data_parallel(2));
  const auto prepared = test::prepare(given, given.yaml(), given.ranks);
  std::atomic<bool> over{false};
  try {
    comm::run_on_threads(2, [&](comm::World& world) {
      const auto device = device::make_cpu_device({});
      runtime::Executor executor(prepared.plan, *device, world, {.time_limit_s = 0.3});
      executor.initialise_state();
      device::StepParams params;
      params.real_rows = given.real_rows;
      for (params.step = 1; params.step <= 3; ++params.step) {
        if (params.step == 3 && world.rank() == 1) {  // stops without a word
          while (!over) std::this_thread::yield();
          return;
        }
        try {
          executor.run("train", "apply", params);
        } catch (...) {
          over = true;
          throw;
        }
      }
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kPeerLost);
    EXPECT_THAT(error.what(), AllOf(::testing::StartsWith("rank 0 on "), HasSubstr("(instruction "),
                                    HasSubstr(", step 3) has waited 0.3 s for rank 1 ("), HasSubstr(", layer ")));
  }
}

}  // namespace
}  // namespace tessera::faults
