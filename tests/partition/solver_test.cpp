#include "partition/solver.h"

#include <functional>
#include <limits>

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
using ::testing::Not;

const Rules nowhere = by_name({});

// Every legal combination of strategies, priced from its moves.
void visit_all(const SolverInput& input, const std::function<void(const Assignment&, Cost)>& visit) {
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
  std::vector<std::size_t> index(strategies.size());
  for (std::size_t v = 0; v < index.size();) {
    for (std::size_t u = 0; u < index.size(); ++u) assignment.chosen[u] = strategies[u][index[u]];
    if (const auto time = time_from_moves(input, assignment))
      visit(assignment, *time + kPenalty * penalty_from_moves(input, assignment));
    for (v = 0; v < index.size() && ++index[v] == strategies[v].size(); ++v) index[v] = 0;
  }
}

// No axis idle: every strategy counts.
void mention_all_axes(SolverInput& input) {
  SolverInput::SourceLayouts everywhere;
  everywhere.in_layout_map = true;
  for (mesh::Axis axis = 0; axis < input.mesh->axis_count(); ++axis)
    everywhere.value[static_cast<std::size_t>(axis)] = 0;
  input.sources[-1] = everywhere;
}

void expect_optimal(const mesh::DeviceMesh& mesh, const std::vector<std::string>& batch, const TestGraph& graph) {
  const auto hardware = h100x8();
  auto input = graph.solver_input(mesh, batch, hardware);
  mention_all_axes(input);
  int count = 0;
  Cost best = kForbidden;
  visit_all(input, [&](const Assignment&, Cost cost) {
    best = std::min(best, cost);
    ++count;
  });
  const auto assignment = solve(input);
  EXPECT_EQ(assignment.time_fs, time_of(best)) << count << " assignments";
  EXPECT_EQ(assignment.penalty, penalty_of(best));
  EXPECT_GT(count, 100);
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

TEST(Solver, AlternativesCostWhatBruteForceSays) {
  const mesh::DeviceMesh mesh({2, 2}, {"b", "m"}, 4);
  const auto hardware = h100x8();
  const auto graph = mlp(64, {64, 64}, by_name({{"dense_1/kernel", {{}, {"m"}}}}), false);
  auto input = graph.solver_input(mesh, {"b"}, hardware);
  mention_all_axes(input);
  Solver solver(input);
  const auto best = solver.solve(0);
  const auto pair_of = [](const Assignment& a, int v, int k) {
    return std::pair(
        a.chosen[static_cast<std::size_t>(a.nodes[static_cast<std::size_t>(v)].args[static_cast<std::size_t>(k)])]
            ->result,
        a.chosen[static_cast<std::size_t>(v)]->operands[static_cast<std::size_t>(k)]);
  };
  std::map<std::pair<int, int>, Cost> others;  // by edge: the best with other layouts
  visit_all(input, [&](const Assignment& a, Cost cost) {
    for (int v = 0; v < static_cast<int>(a.nodes.size()); ++v)
      for (int k = 0; k < static_cast<int>(a.nodes[static_cast<std::size_t>(v)].args.size()); ++k) {
        auto& other = others.try_emplace({v, k}, kForbidden).first->second;
        if (pair_of(a, v, k) != pair_of(best, v, k)) other = std::min(other, cost);
      }
  });
  ASSERT_EQ(others.size(), 6U);
  const auto found = solver.alternatives(best);
  for (const auto& [edge, cost] : others) {
    const auto& alternative = found[static_cast<std::size_t>(edge.first)][static_cast<std::size_t>(edge.second)];
    ASSERT_EQ(alternative.legal, cost < kForbidden);
    if (!alternative.legal) continue;
    EXPECT_EQ(alternative.more_fs, time_of(cost) - best.time_fs) << alternative.sentence;
    EXPECT_EQ(alternative.more_penalty, penalty_of(cost) - best.penalty);
  }
}

TEST(Solver, AnAlternativeSaysWhatWouldMoveAndWhatItCosts) {
  const mesh::DeviceMesh mesh({2, 4}, {"batch", "model"}, 8);
  const auto hardware = h100x8();
  const auto graph =
      mlp(256, {1024, 4096, 10}, by_name({{"dense_1/kernel", {{}, {"model"}}}, {"dense_1/bias", {{"model"}}}}));
  const auto input = graph.solver_input(mesh, {"batch"}, hardware);
  const auto best = solve(input);
  for (int v = 0; v < static_cast<int>(best.nodes.size()); ++v)
    if (graph.graph().node(best.nodes[static_cast<std::size_t>(v)].graph_node).name == "bias_2") {
      EXPECT_EQ(alternatives(input, best)[static_cast<std::size_t>(v)][0].sentence,
                "bias_2 with m over model instead of -: reduce_scatter over model; backward all_gather over model; "
                "9.99 us more");
    }
}

TEST(Solver, MemoryIsAConstraintThatPicksTheFastestPlanThatFits) {
  const mesh::DeviceMesh mesh({2, 4}, {"batch", "model"}, 8);
  const auto hardware = h100x8();
  TransformerConfig config;
  config.blocks = 2;
  const auto graph = transformer(config);
  const auto input = graph.solver_input(mesh, {"batch"}, hardware);
  const auto peak = [&](const Assignment& a) { return saved_bytes(input, a); };
  const auto fastest = solve(input);
  EXPECT_EQ(peak(fastest), 201359360);
  EXPECT_EQ(solve_within(input, peak(fastest), peak).assignment.time_fs, fastest.time_fs);

  const auto tight = solve_within(input, 150'000'000, peak);
  EXPECT_TRUE(tight.fits);
  EXPECT_EQ(peak(tight.assignment), 138444800);
  EXPECT_GT(tight.assignment.time_fs, fastest.time_fs);
  EXPECT_EQ(tight.assignment.time_fs, time_from_moves(input, tight.assignment)) << "the price of memory is no time";
  EXPECT_THAT(summary(input, tight.assignment), HasSubstr("rep: 5 AG@model"));

  const auto impossible = solve_within(input, 100'000'000, peak);
  EXPECT_FALSE(impossible.fits);
  EXPECT_EQ(peak(impossible.assignment), 138432512);
}

TEST(Solver, APinnedOutputThatNobodyReadsGetsItsLayoutFromAHub) {
  const mesh::DeviceMesh mesh({2, 4}, {"batch", "model"}, 8);
  const auto hardware = h100x8();
  TestGraph g;
  const auto x = g.input("x", {8, 16});
  const auto y = g.einsum("y", "mk,kn->mn", x, g.variable("w", {16, 32}, Dims{{"model"}, {}}));
  g.pin(y, {{"batch"}, {"model"}});
  auto input = g.solver_input(mesh, {"batch"}, hardware);
  input.training = false;
  const auto a = solve(input);
  ASSERT_EQ(a.nodes.size(), 4U);
  EXPECT_TRUE(a.nodes[3].hub);
  EXPECT_EQ(to_string(a.result_layout(3), mesh), "[batch, model]");
  EXPECT_EQ(summary(input, a), "fwd: 1 RS@model 384\n");
}

TEST(Solver, WithoutTrainingNothingGoesBackward) {
  const mesh::DeviceMesh mesh({2, 4}, {"batch", "model"}, 8);
  const auto hardware = h100x8();
  const auto graph = transformer({});
  auto input = graph.solver_input(mesh, {"batch"}, hardware);
  input.training = false;
  const auto collectives = summary(input, solve(input));
  for (const auto* phase : {"bwd", "rep", "grad", "update"}) EXPECT_THAT(collectives, Not(HasSubstr(phase)));
  EXPECT_THAT(collectives, HasSubstr("fwd.inner: 2 AR@model 73728"));
}

TEST(Solver, OneRankNeedsNoMesh) {
  const mesh::DeviceMesh mesh;
  const auto hardware = h100x8();
  const auto graph = mlp(6, {5, 7, 3}, nowhere);
  const auto input = graph.solver_input(mesh, {}, hardware);
  const auto a = solve(input);
  EXPECT_EQ(summary(input, a), "");
  EXPECT_GT(a.time_fs, 0);
}

TEST(Solver, ABatchThatDoesNotDivideNamesTheOp) {
  const mesh::DeviceMesh mesh({4}, {"batch"}, 4);
  const auto hardware = h100x8();
  const auto graph = mlp(30, {8, 8}, nowhere);
  try {
    solve(graph.solver_input(mesh, {"batch"}, hardware));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfig);
    EXPECT_STREQ(
        error.what(),
        "dense_1 cannot be split over mesh (batch 4): the batch m = 30 must divide over the axes that split it; "
        "choose sizes that divide, or another mesh");
  }
}

TEST(Solver, ARedundantMatmulNamesTheSizesThatWouldDivide) {
  const mesh::DeviceMesh mesh({2, 4}, {"batch", "model"}, 8);
  const auto hardware = h100x8();
  TestGraph g;
  const auto x = g.input("x", {250, 1022});
  const auto y = g.einsum("odd", "mk,kn->mn", x, g.variable("w", {1022, 510}));
  const auto z = g.einsum("even", "mk,kn->mn", y, g.variable("v", {510, 512}, Dims{{}, {"model"}}));
  g.weighted_sum("loss", "mn->", z);
  const auto a = solve(g.solver_input(mesh, {"batch"}, hardware));
  EXPECT_THAT(a.warnings,
              ElementsAre("odd is computed 4 times, once a rank of axis 'model' (4); k = 1022 does not divide, 1020 or "
                          "1024 would, m = 250 does not divide, 248 or 256 would, n = 510 does not divide, 508 or 512 "
                          "would"));
}

TEST(Solver, AnUnmentionedAxisIsNamedAsIdle) {
  const mesh::DeviceMesh mesh({2, 4}, {"batch", "model"}, 8);
  const auto hardware = h100x8();
  const auto graph = mlp(32, {64, 40, 24, 10}, nowhere);
  const auto a = solve(graph.solver_input(mesh, {"batch"}, hardware));
  EXPECT_THAT(a.idle_axes, ElementsAre(1));
  EXPECT_THAT(a.warnings, ElementsAre(HasSubstr("axis 'model' (4) is not used")));
}

TEST(Solver, AStepLongerThanTheClockStillHasABestPlan) {
  TransformerConfig config;
  config.b = 1 << 20;
  config.d = 8192;
  config.f = 32768;
  const mesh::DeviceMesh mesh({2, 4}, {"batch", "model"}, 8);
  const auto hardware = load_hardware("cpu");
  const auto graph = transformer(config);
  const auto input = graph.solver_input(mesh, {"batch"}, hardware);
  const auto a = solve(input);
  EXPECT_EQ(a.time_fs, std::numeric_limits<std::int64_t>::max());
  EXPECT_THAT(summary(input, a), HasSubstr("fwd.inner: 2 AR@model"));
}

TEST(CostModel, AnAxisIsRemoteWhereItsGroupsLeaveTheNode) {
  const mesh::DeviceMesh mesh({2, 2, 3}, {"a", "b", "c"}, 12);
  auto hardware = h100x8();
  const auto is_remote = [&](std::int64_t devices_per_node, std::vector<mesh::Axis> axes) {
    hardware.devices_per_node = devices_per_node;
    return CostModel(mesh, hardware).link(axes).bytes_per_s == hardware.remote.bytes_per_s;
  };
  EXPECT_FALSE(is_remote(12, {0, 1, 2}));
  EXPECT_TRUE(is_remote(6, {0}));
  EXPECT_FALSE(is_remote(6, {1, 2}));
  EXPECT_TRUE(is_remote(3, {1}));
  EXPECT_FALSE(is_remote(3, {2}));
  EXPECT_TRUE(is_remote(4, {2})) << "ranks 3, 4, 5 lie on two nodes";
  EXPECT_TRUE(is_remote(3, {1, 2})) << "one slow link slows the group";
}

}  // namespace
}  // namespace tessera::partition::testing
