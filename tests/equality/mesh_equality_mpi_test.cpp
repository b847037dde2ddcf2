// The cases of mesh_equality_test that are for as many ranks as this mpirun has, between its processes: on the CPU, or
// each on a GPU with TESSERA_TEST_DEVICE=cuda.
#include <exception>
#include <optional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/mpi_main.h"
#include "comm/nccl.h"
#include "core/error.h"
#include "equality/judge.h"
#include "equality/random_case.h"
#include "support/test_device.h"

namespace tessera::equality {
namespace {

constexpr int kCases = 40;

/// The number of the index-th case for as many ranks as there are.
std::uint64_t number_of(int index) {
  static std::vector<std::uint64_t> numbers;
  for (auto next = numbers.empty() ? 0 : numbers.back() + 1; std::ssize(numbers) <= index; ++next)
    if (random_case(next).ranks == comm::test_world().size()) numbers.push_back(next);
  return numbers[static_cast<std::size_t>(index)];
}

/// A failure of one rank would leave the others waiting: it ends the job.
template <typename F>
auto or_end_job(std::uint64_t number, const test::Case& of, F f) {
  try {
    return f();
  } catch (const Error& error) {
    const auto sentence = fmt::format("case {}: {}\n{}", number, error.what(), of.yaml());
    comm::test_world().abort(static_cast<int>(error.code()), sentence);
    std::terminate();  // the compiler does not see that it is never reached
  }
}

test::Outcome run_alone(const test::Case& of) {
  const auto prepared = test::prepare(of, of.yaml_of_one_rank(), 1, {}, test::device_kind());
  const auto world = comm::make_self_world();
  return test::run(prepared, kSteps, *world, *test::make_device(comm::test_world().local_rank()));
}

test::Outcome run_together(const test::Prepared& prepared) {
  auto& world = comm::test_world();
  const auto device = test::make_device(world.local_rank());
  if (!device->asynchronous()) return test::run(prepared, kSteps, world, *device);
  const auto gpus = comm::nccl_backend().make_world(world, {.stream = device->native_stream(device::Stream::kComm)});
  return test::run(prepared, kSteps, *gpus, *device);
}

/// What a device alone makes of a case, on the rank whose turn it is: of each so many cases a rank has one.
const test::Outcome* reference(int index, int cases) {
  static int group = -1;
  static std::optional<test::Outcome> own;
  const auto& world = comm::test_world();
  if (group != index / world.size()) {
    group = index / world.size();
    if (const int mine = group * world.size() + world.rank(); mine < cases) {
      const auto of = random_case(number_of(mine));
      own = or_end_job(number_of(mine), of, [&] { return run_alone(of); });
    }
  }
  return index % world.size() == world.rank() ? &*own : nullptr;
}

/// Memory that a GPU gives for the plan's pools, in the pieces of 512 bytes that it is counted in.
std::int64_t pool_bytes(const partition::Plan& plan) {
  std::int64_t sum = 0;
  for (const auto pool : partition::pools_of(plan))
    if (pool != partition::Pool::kStaging) sum += (plan.pool_bytes[static_cast<std::size_t>(pool)] + 511) / 512 * 512;
  return sum;
}

class MeshEqualityMpi : public testing::TestWithParam<int> {};

TEST_P(MeshEqualityMpi, TrainsAsOneRank) {
  const auto number = number_of(GetParam());
  const auto of = random_case(number);
  SCOPED_TRACE(fmt::format("case {}\n{}", number, of.yaml()));
  const auto* one = reference(GetParam(), case_count(kCases));
  const auto prepared =
      or_end_job(number, of, [&] { return test::prepare(of, of.yaml(), of.ranks, {}, test::device_kind()); });
  const auto many = or_end_job(number, of, [&] { return run_together(prepared); });
  if (one != nullptr) expect_equal(*one, many);
  expect_planned(many, prepared.plan);
  EXPECT_EQ(many.gpu_bytes, test::device_kind() == device::DeviceKind::kCuda ? pool_bytes(prepared.plan) : 0);
}

INSTANTIATE_TEST_SUITE_P(Random, MeshEqualityMpi, testing::Range(0, case_count(kCases)));

}  // namespace
}  // namespace tessera::equality
