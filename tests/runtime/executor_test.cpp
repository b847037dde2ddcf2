#include "runtime/executor.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "comm/communicator.h"
#include "core/error.h"

namespace tessera::runtime {
namespace {

using partition::CollectiveCall;
using partition::CollectiveKind;
using partition::KernelCall;
using partition::Plan;
using partition::Pool;
using partition::Program;
using partition::Stream;

/// y = a b, or y += a b from the second micro-batch on.
class Matmul final : public device::Kernel {
 public:
  explicit Matmul(const device::KernelSpec& spec) : spec_(spec) {}
  void run(const void* const* inputs, void* const* outputs, const device::StepParams& params) override {
    const auto m = spec_.inputs[0].shape[0], k = spec_.inputs[0].shape[1], n = spec_.inputs[1].shape[1];
    const auto* a = static_cast<const float*>(inputs[0]);
    const auto* b = static_cast<const float*>(inputs[1]);
    auto* y = static_cast<float*>(outputs[0]);
    const bool adds = spec_.attributes.get_or("accumulate", false) && params.micro_batch > 0;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = adds ? y[i * n + j] : 0;
        for (std::int64_t l = 0; l < k; ++l) sum += a[i * k + l] * b[l * n + j];
        y[i * n + j] = sum;
      }
  }

 private:
  device::KernelSpec spec_;
};

/// Copies, or writes zeros where `keep` is false.
class KeepOrZero final : public device::Kernel {
 public:
  explicit KeepOrZero(const device::KernelSpec& spec)
      : bytes_(static_cast<std::size_t>(elements(spec.inputs[0].shape)) * 4),
        keep_(spec.attributes.get<bool>("keep")) {}
  void run(const void* const* inputs, void* const* outputs, const device::StepParams&) override {
    keep_ ? (void)std::memmove(outputs[0], inputs[0], bytes_) : (void)std::memset(outputs[0], 0, bytes_);
  }

 private:
  std::size_t bytes_;
  bool keep_;
};

class TestDevice final : public device::Device {
 public:
  std::string name() const override { return "test:0"; }
  device::DeviceKind kind() const override { return device::DeviceKind::kCpu; }
  std::unique_ptr<device::Kernel> make_kernel(const device::KernelSpec& spec, device::Stream) override {
    ++kernels_made;
    if (spec.name == "matmul") return std::make_unique<Matmul>(spec);
    return std::make_unique<KeepOrZero>(spec);
  }
  std::shared_ptr<void> allocate(std::int64_t bytes) override {
    allocated += bytes;
    return {std::calloc(1, static_cast<std::size_t>(bytes)), std::free};
  }
  std::shared_ptr<void> allocate_host(std::int64_t bytes) override { return allocate(bytes); }
  void copy_in(void* device, const void* host, std::int64_t bytes) override {
    std::memcpy(device, host, static_cast<std::size_t>(bytes));
  }
  void copy_out(void* host, const void* device, std::int64_t bytes) override {
    std::memcpy(host, device, static_cast<std::size_t>(bytes));
  }
  void upload(void* device, const void* host, std::int64_t bytes) override { copy_in(device, host, bytes); }
  void begin_step(const device::StepParams&) override {}
  bool idle() override { return true; }
  void synchronize() override {}
  std::unique_ptr<device::Event> make_event() override { return nullptr; }
  void* native_stream(device::Stream) override { return nullptr; }
  std::string tune(const std::vector<device::KernelSpec>&) override { return ""; }
  void set_tuning(const std::string&) override {}
  void set_scratch(void*, std::int64_t bytes) override { scratch_bytes = bytes; }

  int kernels_made = 0;
  std::int64_t allocated = 0, scratch_bytes = 0;
};

/// Every pool that a device has whose kernels read the host's memory.
void set_pools(Plan& plan, std::int64_t bytes) {
  for (const auto pool : {Pool::kState, Pool::kArena, Pool::kComm, Pool::kStaging, Pool::kScratch})
    plan.pool_bytes[static_cast<std::size_t>(pool)] = bytes;
}

int add_value(const Plan& plan, Program& program, const std::string& name, const Shape& shape,
              const mesh::Layout& layout, Pool pool, std::int64_t offset) {
  partition::ProgramValue v;
  v.name = name;
  v.shape = shape;
  v.layout = layout;
  v.local = mesh::local_shape(layout, plan.mesh, shape);
  v.bytes = elements(v.local) * 4;
  v.pool = pool;
  v.offset = offset;
  program.values.push_back(v);
  return static_cast<int>(program.values.size()) - 1;
}

partition::Instruction instruction(KernelCall call) {
  partition::Instruction i;
  i.what = std::move(call);
  return i;
}

partition::Instruction all_reduce(int value, const std::vector<mesh::Axis>& axes, std::vector<int> waits) {
  partition::Instruction i;
  i.what = CollectiveCall{CollectiveKind::kAllReduce, axes, graph::ReduceKind::kSum, DType::kF32, {{value, value}}};
  i.stream = Stream::kComm;
  i.waits = std::move(waits);
  i.reason = "y of all ranks";
  return i;
}

constexpr std::int64_t kM = 6, kK = 8, kN = 5;

/// y = x w with w split by rows over the only axis: a local product and an all-reduce.
Plan row_parallel_plan(std::int64_t ranks) {
  Plan plan;
  plan.mesh = mesh::DeviceMesh({ranks}, {"model"}, ranks);
  partition::StateBuffer w;
  w.variable.path = "w";
  w.variable.initializer = {.kind = graph::Initializer::Kind::kUniform, .low = -1, .high = 1, .key = 11};
  w.shape = {kK, kN};
  w.layout = {{{0}, {}}, {}};
  w.local = mesh::local_shape(w.layout, plan.mesh, w.shape);
  w.bytes = elements(w.local) * 4;
  w.offset = 0;
  plan.state = {w};
  auto& program = plan.programs["predict"];
  program.name = "predict";
  const int x = add_value(plan, program, "x", {kM, kK}, {{{}, {0}}, {}}, Pool::kStaging, 0);
  const int wv = add_value(plan, program, "w", w.shape, w.layout, Pool::kState, 0);
  program.values.back().state = 0;
  const int y = add_value(plan, program, "y", {kM, kN}, {{{}, {}}, {0}}, Pool::kComm, 0);
  program.inputs = {x};
  program.outputs = {{graph::GraphOutput::Kind::kPrediction, "y", y}};
  program.body.instructions = {instruction({"matmul", {x, wv}, {y}, {}}), all_reduce(y, {0}, {0})};
  set_pools(plan, 4096);
  return plan;
}

std::vector<float> run_row_parallel(int ranks, bool comm_thread) {
  const auto plan = row_parallel_plan(ranks);
  std::vector<float> result(kM * kN);
  comm::run_on_threads(ranks, [&](comm::World& world) {
    TestDevice device;
    Executor executor(plan, device, world, {.comm_thread = comm_thread});
    executor.initialise_state();
    auto* x = static_cast<float*>(executor.input("predict", "x"));
    const auto columns = kK / ranks;
    for (std::int64_t i = 0; i < kM; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        x[i * columns + j] = static_cast<float>(i) - 0.5F * static_cast<float>(j + world.rank() * columns);
    for (int k = 0; k < 3; ++k) executor.run("predict", "", {});
    std::vector<float> y(kM * kN);
    executor.read_output("predict", "y", y.data());
    if (world.rank() == ranks - 1) result = y;
    std::int64_t pools = 0;
    for (int p = 0; p < partition::kPoolCount; ++p) pools += executor.pool_bytes(static_cast<Pool>(p));
    EXPECT_EQ(pools, 5 * 4096);
    EXPECT_EQ(device.allocated, pools - executor.pool_bytes(Pool::kComm));  // that one is the world's
    EXPECT_EQ(device.scratch_bytes, 4096);
  });
  return result;
}

TEST(Executor, ARowParallelProductIsThatOfOneRank) {
  const auto expected = run_row_parallel(1, false);
  for (const int ranks : {2, 4})
    for (const bool comm_thread : {false, true}) {
      const auto found = run_row_parallel(ranks, comm_thread);
      for (std::size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(found[k], expected[k], 1e-5F) << ranks;
    }
}

TEST(Executor, RanksWithDifferentPlansAreRefused) {
  EXPECT_THROW(comm::run_on_threads(2,
                                    [](comm::World& world) {
                                      auto plan = row_parallel_plan(2);
                                      if (world.rank() == 1) plan.programs["predict"].values[2].offset = 512;
                                      TestDevice device;
                                      Executor executor(plan, device, world, {});
                                    }),
               Error);
}

TEST(Executor, EqualKernelsAreMadeOnce) {
  auto plan = row_parallel_plan(1);
  auto& body = plan.programs["predict"].body.instructions;
  body.insert(body.begin(), body.front());
  body.back().waits = {1};
  const auto world = comm::make_self_world();
  TestDevice device;
  Executor executor(plan, device, *world, {});
  EXPECT_EQ(device.kernels_made, 1);
}

TEST(Executor, KeepOrZeroKeepsAtCoordinateZeroOnly) {
  Plan plan;
  plan.mesh = mesh::DeviceMesh({2, 2}, {"x", "y"}, 4);
  auto& program = plan.programs["predict"];
  program.name = "predict";
  const int in = add_value(plan, program, "in", {4}, mesh::replicated(1), Pool::kStaging, 0);
  const int out = add_value(plan, program, "out", {4}, {{{}}, {1}}, Pool::kArena, 0);
  program.inputs = {in};
  program.outputs = {{graph::GraphOutput::Kind::kPrediction, "out", out}};
  program.body.instructions = {instruction({"keep_or_zero", {in}, {out}, {{"axes", std::vector<std::int64_t>{1}}}})};
  set_pools(plan, 256);
  comm::run_on_threads(4, [&](comm::World& world) {
    TestDevice device;
    Executor executor(plan, device, world, {});
    std::fill_n(static_cast<float*>(executor.input("predict", "in")), 4, 3.0F);
    executor.run("predict", "", {});
    float values[4];
    executor.read_output("predict", "out", values);
    EXPECT_EQ(values[0], world.rank() % 2 == 0 ? 3.0F : 0.0F);
  });
}

TEST(Executor, MicroBatchesWalkThroughTheInputAndAccumulate) {
  Plan plan;
  auto& program = plan.programs["train"];
  program.name = "train";
  program.micro_batches = 3;
  const int whole = add_value(plan, program, "x", {3, 2, 2}, mesh::replicated(3), Pool::kStaging, 0);
  const int part = add_value(plan, program, "x", {2, 2}, mesh::replicated(2), Pool::kStaging, -1);
  program.values.back().inside = whole;
  program.values.back().micro_stride = 16;
  const int y = add_value(plan, program, "y", {2, 2}, mesh::replicated(2), Pool::kArena, 0);
  program.inputs = {whole};
  program.outputs = {{graph::GraphOutput::Kind::kPrediction, "y", y}};
  program.body.instructions = {instruction({"matmul", {part, part}, {y}, {{"accumulate", true}}})};
  set_pools(plan, 256);
  const auto world = comm::make_self_world();
  TestDevice device;
  Executor executor(plan, device, *world, {});
  auto* x = static_cast<float*>(executor.input("train", "x"));
  for (int m = 0; m < 3; ++m) x[m * 4] = x[m * 4 + 3] = static_cast<float>(m + 1);  // (m + 1) times the identity
  executor.run("train", "", {});
  float values[4];
  executor.read_output("train", "y", values);
  EXPECT_EQ(values[0], 1 + 4 + 9);
  EXPECT_EQ(values[1], 0);
}

TEST(Executor, ReplicasThatDifferAreNamed) {
  auto plan = row_parallel_plan(2);
  plan.state[0].layout = mesh::replicated(2);
  plan.state[0].local = plan.state[0].shape;
  plan.state[0].bytes = elements(plan.state[0].local) * 4;
  plan.programs.clear();
  try {
    comm::run_on_threads(2, [&](comm::World& world) {
      TestDevice device;
      Executor executor(plan, device, world, {});
      executor.initialise_state();
      executor.check_replicas();
      std::vector<float> w(kK * kN);
      executor.read_state("w", w.data());
      if (world.rank() == 1) w[7] += 1e-6F;
      executor.write_state("w", w.data());
      executor.check_replicas();
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInternal);
    EXPECT_NE(std::string(error.what()).find("'w'"), std::string::npos) << error.what();
  }
}

TEST(Executor, AStateIsAssignedAcrossLayouts) {
  auto plan = row_parallel_plan(4);
  auto average = plan.state[0];
  average.variable.path = "average";
  average.layout = mesh::replicated(2);
  average.local = average.shape;
  average.bytes = elements(average.shape) * 4;
  average.offset = 1024;
  plan.state.push_back(average);
  plan.state[0].variable.initializer = {};
  plan.programs.clear();
  comm::run_on_threads(4, [&](comm::World& world) {
    TestDevice device;
    Executor executor(plan, device, world, {});
    executor.initialise_state();
    executor.assign_state("w", "average");
    std::vector<float> whole(kK * kN), part(kK * kN / 4);
    executor.read_state("average", whole.data());
    executor.read_state("w", part.data());
    const auto first = static_cast<std::size_t>(world.rank()) * part.size();
    for (std::size_t k = 0; k < part.size(); ++k) EXPECT_EQ(part[k], whole[first + k]);
  });
}

}  // namespace
}  // namespace tessera::runtime
