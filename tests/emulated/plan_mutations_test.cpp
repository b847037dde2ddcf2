// Mistakes made in plans between the planner and the executor, on two ranks with emulated GPUs:
//   an instruction that waits for nothing      wrong results where a rank is slow; partition::check, for every wait
//   two live values at one place               wrong results; partition::check
//   bias and activation on a partial product   wrong results; partition::check
//   two collectives swapped on one rank        the executor, by the plans' hashes; past it the emulator's NCCL
// Wrong results are those that differ from one device's as mesh equality judges.
#include <chrono>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "comm/mpi_main.h"
#include "comm/nccl.h"
#include "core/error.h"
#include "cuda_emulator/control.h"
#include "emulated/meddling_world.h"
#include "equality/random_case.h"
#include "support/run_case.h"
#include "support/test_device.h"

namespace tessera::mutations {
namespace {

using partition::CollectiveCall;
using partition::Instruction;
using partition::KernelCall;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kSteps = 2;
constexpr double kTolerance = 3e-5;

/// A product in parts between two others; its bias and activation follow the sum of the parts.
test::Case columns_then_rows() {
  test::Case c;
  c.model = R"(model:
  inputs: {x: {shape: [16]}}
  layers:
    - Dense: {name: dense_1, units: 32, activation: tanh, bias_initializer: {RandomNormal: {stddev: 0.5}}}
    - Dense: {name: dense_2, units: 12, activation: relu, bias_initializer: {RandomNormal: {stddev: 0.5}}}
    - Dense: {name: dense_3, units: 8, bias_initializer: {RandomNormal: {stddev: 0.5}}}
compile:
  optimizer: {SGD: {learning_rate: 0.05, momentum: 0.9}}
  loss: mse
fit: {batch_size: 16}
)";
  c.distribution = R"(distribution:
  ModelParallel:
    mesh: {shape: [2], axis_names: [model]}
    batch_dim_name: null
    layout_map:
      dense_1/kernel: [null, model]
      dense_1/bias: [model]
      dense_2/kernel: [model, null]
)";
  c.ranks = 2;
  c.batch = c.real_rows = 16;
  return c;
}

const CollectiveCall* as_collective(const Instruction& i) { return std::get_if<CollectiveCall>(&i.what); }
KernelCall* as_kernel(Instruction& i) { return std::get_if<KernelCall>(&i.what); }

class PlanMutations : public testing::Test {
 protected:
  PlanMutations() {
    cuda_emulator::set_patience(std::chrono::seconds(20));
    cuda_emulator::take_fault();
    const auto alone = test::prepare(given_, given_.yaml_of_one_rank(), 1, {}, device::DeviceKind::kCuda);
    const auto world = comm::make_self_world();
    one_ = test::run(alone, kSteps, *world, *test::make_device(comm::test_world().local_rank()));
  }

  partition::Program& program() { return prepared_.plan.programs.at("train"); }
  std::vector<Instruction>& body() { return program().body.instructions; }
  std::vector<std::string> check() { return partition::check(prepared_.plan, program()); }

  /// What is wrong with a run on both ranks, "" if nothing is.
  std::string complaint(const Meddle& meddle = [](const auto& call) { call(); }) {
    auto& control = comm::test_world();
    try {
      const auto device = test::make_device(control.local_rank());
      const auto gpus =
          comm::nccl_backend().make_world(control, {.stream = device->native_stream(device::Stream::kComm)});
      const auto world = meddling_world(*gpus, meddle);
      const auto difference = test::compare(one_, test::run(prepared_, kSteps, *world, *device));
      return difference.worst <= kTolerance ? "" : "differs: " + difference.where;
    } catch (const Error& error) {
      return error.what();
    }
  }

  const test::Case given_ = columns_then_rows();
  test::Prepared prepared_ = test::prepare(given_, given_.yaml(), given_.ranks, {}, device::DeviceKind::kCuda);
  test::Outcome one_;
};

/// Rank 1 comes late to its collectives, so that rank 0's other work has long been done.
void come_late(const std::function<void()>& call) {
  if (comm::test_world().rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  call();
}

TEST_F(PlanMutations, AMissingWaitGivesWrongResults) {
  EXPECT_THAT(check(), IsEmpty());
  EXPECT_EQ(complaint(come_late), "");
  const auto reader = std::find_if(body().begin(), body().end(), [&](const Instruction& i) {
    return as_collective(i) == nullptr && !i.waits.empty();
  });
  ASSERT_NE(reader, body().end());
  reader->waits.clear();
  EXPECT_THAT(check(), Contains(HasSubstr("in no order")));
  EXPECT_THAT(complaint(come_late), HasSubstr("differs"));
}

// No wait of a plan is there in vain, whether for a value or for its memory.
TEST_F(PlanMutations, EveryMissingWaitIsNamed) {
  int waits = 0;
  for (std::uint64_t number = 0; number < 12; ++number) {
    const auto of = equality::random_case(number);
    auto plan = test::prepare(of, of.yaml(), of.ranks, {}, device::DeviceKind::kCuda).plan;
    auto& program = plan.programs.at("train");
    std::vector<partition::Section*> sections{&program.prologue, &program.body};
    for (auto& [name, section] : program.epilogues) sections.push_back(&section);
    for (auto* section : sections)
      for (auto& instruction : section->instructions)
        for (const auto all = instruction.waits; const int wait : all) {
          std::erase(instruction.waits, wait);
          EXPECT_THAT(partition::check(plan, program), Not(IsEmpty()))
              << "case " << number << ", " << instruction.layer;
          instruction.waits = all;
          ++waits;
        }
  }
  EXPECT_GT(waits, 100);
}

TEST_F(PlanMutations, MemoryThatIsUsedAgainTooEarlyGivesWrongResults) {
  // Of a value that is written while another, which is read later, is there.
  const auto owns_memory = [&](int v) {
    const auto& value = program().values[static_cast<std::size_t>(v)];
    return value.inside < 0 && value.state < 0 && value.offset >= 0 && value.pool == partition::Pool::kArena;
  };
  std::optional<std::pair<int, int>> pair;
  for (std::size_t written = 0; written < body().size() && !pair; ++written)
    for (std::size_t over = written + 1; over < body().size() && !pair; ++over)
      for (std::size_t read = over + 1; read < body().size() && !pair; ++read) {
        const auto *first = as_kernel(body()[written]), *second = as_kernel(body()[over]),
                   *third = as_kernel(body()[read]);
        if (first == nullptr || second == nullptr || third == nullptr) continue;
        const int value = first->outputs[0], other = second->outputs[0];
        if (value != other && owns_memory(value) && owns_memory(other) &&
            std::find(third->inputs.begin(), third->inputs.end(), value) != third->inputs.end())
          pair = {value, other};
      }
  ASSERT_TRUE(pair);
  EXPECT_EQ(complaint(), "");
  auto& values = program().values;
  values[static_cast<std::size_t>(pair->second)].offset = values[static_cast<std::size_t>(pair->first)].offset;
  EXPECT_THAT(check(), Contains(HasSubstr("while both are in use")));
  EXPECT_THAT(complaint(), HasSubstr("differs"));
}

TEST_F(PlanMutations, AnEpilogueOnAPartialProductGivesWrongResults) {
  const auto product = std::find_if(body().begin(), body().end(), [&](Instruction& i) {
    const auto* kernel = as_kernel(i);
    return kernel != nullptr && kernel->kernel == "matmul" && i.layer == "dense_2" &&
           !program().values[static_cast<std::size_t>(kernel->outputs[0])].layout.partial.empty();
  });
  ASSERT_NE(product, body().end());
  const auto after = std::find_if(product, body().end(), [&](Instruction& i) {
    const auto* kernel = as_kernel(i);
    return kernel != nullptr && kernel->kernel == "elementwise" && kernel->inputs.size() == 2;
  });
  ASSERT_NE(after, body().end());
  ASSERT_EQ(as_kernel(*after)->attributes.get<std::string>("program"), "add i0 i1 | relu t0");
  EXPECT_EQ(complaint(), "");
  auto &matmul = *as_kernel(*product), &rest = *as_kernel(*after);
  matmul.inputs.push_back(rest.inputs[1]);
  matmul.attributes.set("bias", true);
  matmul.attributes.set("activation", std::string("relu"));
  rest = {"copy", {rest.inputs[0]}, rest.outputs, {}};
  EXPECT_THAT(check(), Contains(HasSubstr("of a partial product")));
  EXPECT_THAT(complaint(), HasSubstr("differs"));
}

TEST_F(PlanMutations, AnotherOrderOfCollectivesOnOneRankIsAnotherPlan) {
  std::vector<Instruction*> collectives;
  for (auto* section : {&program().prologue, &program().body})
    for (auto& i : section->instructions)
      if (as_collective(i) != nullptr) collectives.push_back(&i);
  for (auto& i : program().epilogues.at("apply").instructions)
    if (as_collective(i) != nullptr) collectives.push_back(&i);
  ASSERT_GE(collectives.size(), 2U);
  if (comm::test_world().rank() == 1) std::swap(collectives[0]->what, collectives[1]->what);
  EXPECT_THAT(complaint(), HasSubstr("has another plan than rank 0"));
}

// Past that check: rank 1 makes its second call first. Last of all tests, as the communicator ends with it.
TEST_F(PlanMutations, CollectivesInAnotherOrderOnOneRankAreAFault) {
  std::function<void()> first;
  int calls = 0;
  const auto swapped = [&](std::function<void()> call) {
    if (comm::test_world().rank() == 1 && calls++ == 0) {
      first = std::move(call);
      return;
    }
    call();
    if (first) std::exchange(first, nullptr)();
  };
  EXPECT_NE(complaint(swapped), "");
  EXPECT_THAT(cuda_emulator::take_fault(),
              AnyOf(HasSubstr("elements where rank"), HasSubstr("found calls that differ")));
}

}  // namespace
}  // namespace tessera::mutations
