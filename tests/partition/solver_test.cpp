#include "partition/solver.h"

#include <chrono>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "partition/cost.h"
#include "partition/problem.h"
#include "partition/strategy.h"
#include "partition/summary.h"
#include "partition/test_models.h"

namespace tessera::partition::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Rules nowhere = by_name({});

// Every combination of strategies, each priced from its moves.
Cost cheapest_by_brute_force(const SolverInput& input, std::size_t& count) {
  const auto problem = make_problem(input);
  const CostModel cost(*input.mesh, *input.hardware);
  const StrategyMaker maker(input, cost);
  auto assignment = solve(input);
  std::vector<std::vector<std::shared_ptr<const Strategy>>> strategies;
  for (const auto& vertex : problem.vertices) {
    const auto options = axis_options(vertex);
    auto& list = strategies.emplace_back();
    for (const auto& combination : maker.combinations(vertex, options, maker.choices(vertex, options, 0, 0), 1 << 20))
      list.push_back(std::make_shared<const Strategy>(maker.make(vertex, options, combination)));
  }
  Cost best = kForbidden;
  std::vector<std::size_t> index(strategies.size());
  for (count = 0;; ++count) {
    for (std::size_t v = 0; v < index.size(); ++v) assignment.chosen[v] = strategies[v][index[v]];
    try {
      const Cost total = time_from_moves(input, assignment) + kPenalty * penalty_from_moves(input, assignment);
      best = std::min(best, total);
    } catch (const Error&) {  // a forbidden edge
    }
    std::size_t v = 0;
    while (v < index.size() && ++index[v] == strategies[v].size()) index[v++] = 0;
    if (v == index.size()) return best;
  }
}

void expect_optimal(const mesh::DeviceMesh& mesh, const std::vector<std::string>& batch, const TestGraph& graph) {
  const auto hardware = h100x8();
  auto input = graph.solver_input(mesh, batch, hardware);
  for (auto& [node, layouts] : input.sources) layouts.in_layout_map = true;
  for (mesh::Axis axis = 0; axis < mesh.axis_count(); ++axis)  // no idle axes: every strategy counts
    input.sources[-1 - axis] = {
        .value = to_placement({{{axis}}, {}}), .gradient = {}, .slots = {}, .in_layout_map = true};
  std::size_t count = 0;
  const auto best = cheapest_by_brute_force(input, count);
  const auto assignment = solve(input);
  EXPECT_EQ(assignment.time_fs, time_of(best)) << count << " assignments";
  EXPECT_EQ(assignment.penalty, penalty_of(best));
  EXPECT_GT(count, 200U);
}

TEST(Solver, IsOptimalForADenseLayerOnOneAxis) {
  expect_optimal({{2}, {"m"}, 2}, {}, mlp(64, {64, 64}, by_name({{"dense_1/kernel", {{}, {"m"}}}}), false));
}

TEST(Solver, IsOptimalForADenseLayerOnTwoAxes) {
  expect_optimal({{2, 2}, {"b", "m"}, 4}, {"b"}, mlp(64, {64, 64}, by_name({{"dense_1/kernel", {{}, {"m"}}}}), false));
}

TEST(Solver, IsOptimalForAKernelReadTwiceAndAResidual) {
  TestGraph g;
  const auto x = g.input("x", {16, 8});
  const auto w = g.variable("w", {8, 8}, Dims{{"m"}, {}});
  const auto y = g.einsum("a", "mk,kn->mn", x, w);
  const auto s = g.add("s", "mn,mn->mn", {y, g.einsum("b", "mk,kn->mn", y, w)});
  g.weighted_sum("l", "mn->", s);
  expect_optimal({{2, 2}, {"b", "m"}, 4}, {"b"}, g);
}

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TransformerConfig large() {
  TransformerConfig config;
  config.blocks = 64;
  config.b = 1024;
  config.s = 2048;
  config.d = 8192;
  config.h = 64;
  config.f = 32768;
  config.v = 131072;
  return config;
}

struct Scale {
  double seconds = 0;
  Assignment assignment;
  std::string collectives;
};

Scale solve_large(const TransformerConfig& config, const mesh::DeviceMesh& mesh,
                  const std::vector<std::string>& batch) {
  const auto hardware = h100x8();
  const auto graph = transformer(config);
  const auto input = graph.solver_input(mesh, batch, hardware);
  Scale scale;
  scale.seconds = seconds_of([&] { scale.assignment = solve(input); });
  scale.collectives = summary(input, scale.assignment);
  EXPECT_EQ(time_from_moves(input, scale.assignment), scale.assignment.time_fs);
  return scale;
}

// Limits of time leave room for a busy machine.
constexpr double kLimit = 4;

TEST(SolverScale, SixtyFourBlocksFullyShardedTensorParallelOn4096Ranks) {
  auto config = large();
  config.rules = [](const std::string& name, const Shape& shape) -> std::optional<Dims> {
    if (name == "wq" || name == "wk" || name == "wv") return Dims{{"fsdp"}, {"model"}, {}};
    if (name == "wo") return Dims{{"model"}, {}, {"fsdp"}};
    return megatron({"model", "fsdp"})(name, shape);
  };
  const auto s = solve_large(config, {{16, 32, 8}, {"data", "fsdp", "model"}, 4096}, {"data", "fsdp"});
  EXPECT_EQ(s.assignment.time_fs, 1613792976372531);
  EXPECT_EQ(s.collectives,
            "bwd: 129 AR@model 15149826048\n"
            "fwd: 129 AR@model 15149826048\n"
            "fwd.inner: 2 AR@model 86016\n"
            "grad: 450 AR@data 1572925440, 322 AR@data+fsdp 21061376, 450 RS@fsdp 26005700608\n"
            "weight: 450 AG@fsdp 13002850304\n"
            "weight.rep: 385 AG@fsdp 12742295552\n");
  EXPECT_LT(s.seconds, kLimit);
}

TEST(SolverScale, SixtyFourBlocksWithAFreeContextAxis) {
  auto config = large();
  config.b = 16;
  config.s = 32768;
  config.ids = Dims{{"data"}, {"context"}};
  const auto s = solve_large(config, {{16, 32, 8}, {"data", "context", "model"}, 4096}, {"data"});
  EXPECT_EQ(s.assignment.time_fs, 1367350999416028);
  EXPECT_THAT(s.collectives, HasSubstr("fwd.inner: 2 AR@model 21504, 64 RING@model 1879048192\n"));
  EXPECT_LT(s.seconds, kLimit);
}

TEST(SolverScale, SixtyFourBlocksOnFourAxes) {
  auto config = large();
  config.b = 16;
  config.s = 32768;
  config.ids = Dims{{"data"}, {"context"}};
  config.rules = megatron({"model", "m2"});
  const auto s = solve_large(config, {{16, 4, 8, 8}, {"data", "context", "model", "m2"}, 4096}, {"data"});
  EXPECT_EQ(s.assignment.joint_table, 1698304);
  EXPECT_EQ(s.assignment.time_fs, 828650017934176);
  EXPECT_LT(s.seconds, kLimit);
}

TEST(SolverScale, SixtyFourBlocksThatAllReadAMaskAndAnEncoder) {
  auto config = large();
  config.blocks = 64;
  config.b = 16;
  config.s = 32768;
  config.ids = Dims{{"data"}, {"context"}};
  config.mask = config.encoder = true;
  const auto s = solve_large(config, {{16, 32, 8}, {"data", "context", "model"}, 4096}, {"data"});
  EXPECT_LT(s.seconds, kLimit);
  std::printf("%s %.3f s\n", s.assignment.how.c_str(), s.seconds);
}

TEST(SolverScale, FiveAxesNeverTakeTheFullProduct) {
  auto config = large();
  config.b = 16;
  config.s = 32768;
  config.ids = Dims{{"data"}, {"context"}};
  config.rules = megatron({"m1", "m2", "m3"});
  const auto s = solve_large(config, {{16, 4, 4, 4, 4}, {"data", "context", "m1", "m2", "m3"}, 4096}, {"data"});
  EXPECT_THAT(s.assignment.how, HasSubstr("axis by axis"));
  EXPECT_LT(s.seconds, kLimit);
  std::printf("%s %.3f s\n", s.assignment.how.c_str(), s.seconds);
}

// As an optimizer has it: for each of many variables an op that also reads a common scalar.
TEST(SolverScale, AScalarReadByThousandsOfUpdates) {
  TestGraph g;
  const auto rate = g.variable("rate", {});
  for (int i = 0; i < 4000; ++i) {
    const auto n = std::to_string(i);
    const auto w = g.variable("w" + n, {64, 64}, Dims{{}, {"model"}}),
               d = g.variable("g" + n, {64, 64}, Dims{{}, {"model"}});
    g.add("step" + n, "ab,,ab->ab", {w, rate, d});
  }
  const mesh::DeviceMesh mesh({2, 4}, {"batch", "model"}, 8);
  const auto hardware = h100x8();
  auto input = g.solver_input(mesh, {"batch"}, hardware);
  input.training = false;
  Assignment a;
  EXPECT_LT(seconds_of([&] { a = solve(input); }), kLimit);
  EXPECT_EQ(summary(input, a), "");
}

}  // namespace
}  // namespace tessera::partition::testing
