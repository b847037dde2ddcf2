#include "faults/cases.h"

#include <cmath>

#include <gtest/gtest.h>

#include "core/error.h"

namespace tessera::faults {
namespace {

constexpr int kSteps = 3;
constexpr double kTolerance = 3e-5;  // of the largest element of a tensor; three steps in float32

}  // namespace

Mesh model_parallel(int ranks, const std::string& shape, const std::string& axes, const std::string& batch,
                    const std::string& rules, const std::string& more) {
  return {ranks,
          fmt::format("distribution:\n  ModelParallel:\n    mesh: {{shape: {}, axis_names: {}}}\n    batch_dim_name: "
                      "{}\n    layout_map: {}\n{}",
                      shape, axes, batch, rules, more.empty() ? "" : "    " + more + "\n")};
}

Mesh data_parallel(int ranks) { return {ranks, "distribution:\n  DataParallel:\n"}; }

Mesh with_zero(Mesh mesh, int stage) {
  mesh.distribution += fmt::format("  zero_stage: {}\n", stage);
  return mesh;
}

test::Case make_case(const std::string& inputs, const std::string& layers, const std::string& loss,
                     const std::string& optimizer) {
  test::Case given;
  given.batch = 10;
  given.real_rows = 7;
  given.model =
      fmt::format("model:\n  inputs: {}\n  layers:\n{}compile: {{optimizer: {}, loss: {}}}\nfit: {{batch_size: {}}}\n",
                  inputs, layers, optimizer, loss, given.batch);
  return given;
}

test::Case on(test::Case given, const Mesh& mesh) {
  given.ranks = mesh.ranks;
  given.distribution = mesh.distribution;
  return given;
}

void expect_equal_on(const test::Case& given, const std::vector<Mesh>& meshes, const test::Tensors& start) {
  const auto one = test::run(test::prepare(given, given.yaml_of_one_rank(), 1), kSteps, {start, {}});
  for (const auto& mesh : meshes) {
    const auto many_ranks = on(given, mesh);
    SCOPED_TRACE(many_ranks.yaml());
    try {
      const auto many = test::run(test::prepare(many_ranks, many_ranks.yaml(), mesh.ranks), kSteps, {start, {}});
      const auto difference = test::compare(one, many);
      EXPECT_LE(difference.worst, kTolerance) << difference.where;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

double difference_without(const test::Case& given, const Mesh& mesh,
                          const std::function<bool(const partition::Instruction&)>& left_out,
                          const test::Tensors& start) {
  const auto one = test::run(test::prepare(given, given.yaml_of_one_rank(), 1), kSteps, {start, {}});
  const auto many_ranks = on(given, mesh);
  auto prepared = test::prepare(many_ranks, many_ranks.yaml(), mesh.ranks);
  int found = 0;
  auto& train = prepared.plan.programs.at("train");
  for (auto* section : {&train.prologue, &train.body, &train.epilogues.at("apply")})
    for (auto& instruction : section->instructions) {
      auto* call = std::get_if<partition::CollectiveCall>(&instruction.what);
      if (call == nullptr || call->kind != partition::CollectiveKind::kAllReduce || !left_out(instruction)) continue;
      call->axes = {};  // of one rank: nothing is added
      ++found;
    }
  EXPECT_GT(found, 0) << "nothing to leave out";
  try {
    return test::compare(one, test::run(prepared, kSteps, {start, {}})).worst;
  } catch (const Error&) {
    return INFINITY;
  }
}

}  // namespace tessera::faults
