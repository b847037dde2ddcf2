#include "mesh/distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"

namespace tessera::mesh {
namespace {

using config::DistributionSpec;
using config::LayoutSpec;
using testing::ElementsAre;
using testing::IsEmpty;

SourcePos at(int line, int column) { return {"digits.yaml", line, column}; }

LayoutSpec rule(const std::string& key, std::vector<config::AxisNames> dims, bool replicate = false) {
  return {key, std::move(dims), replicate, at(13, 24), at(13, 7)};
}

DistributionSpec data_parallel() {
  DistributionSpec spec;
  spec.pos = at(8, 1);
  return spec;
}

DistributionSpec model_parallel(std::vector<std::int64_t> shape, std::vector<std::string> names,
                                std::vector<LayoutSpec> layout_map = {}) {
  DistributionSpec spec;
  spec.strategy = DistributionSpec::Strategy::kModelParallel;
  spec.has_mesh = true;
  spec.mesh_shape = std::move(shape);
  spec.axis_names = std::move(names);
  spec.layout_map = std::move(layout_map);
  spec.pos = at(8, 1);
  spec.mesh_pos = at(10, 11);
  return spec;
}

DistributionSpec with_batch(DistributionSpec spec, std::vector<std::string> names) {
  spec.has_batch_dim_name = true;
  spec.batch_dim_names = std::move(names);
  spec.batch_dim_name_pos = at(11, 21);
  return spec;
}

std::string layout_text(const Distribution& d, const Layout& layout) { return to_string(layout, d.mesh); }

TEST(DataParallel, WithoutAMeshItIsTheAxisBatchOverAllRanks) {
  const auto d = make_distribution(data_parallel(), 4);
  EXPECT_EQ(to_string(d.mesh), "(batch 4)");
  EXPECT_EQ(d.batch_shards(), 4);
  EXPECT_EQ(layout_text(d, input_layout(d, "x", {8, 3, 3})), "[batch, null, null]");
  EXPECT_EQ(layout_text(d, variable_layout(d, "dense/kernel", {8, 4})), "[null, null]");
}

TEST(DataParallel, TakesTheNameOfItsOnlyAxis) {
  auto spec = data_parallel();
  spec.has_mesh = true;
  spec.mesh_shape = {-1};
  spec.axis_names = {"data"};
  const auto d = make_distribution(spec, 4);
  EXPECT_EQ(layout_text(d, input_layout(d, "x", {8, 3, 3})), "[data, null, null]");
}

TEST(DataParallel, SeveralAxesAreAnErrorThatSaysModelParallel) {
  auto spec = model_parallel({2, 2}, {"batch", "model"});
  spec.strategy = DistributionSpec::Strategy::kDataParallel;
  EXPECT_CONFIG_ERROR(make_distribution(spec, 4), "digits.yaml:10:11: DataParallel takes a mesh of one axis");
  EXPECT_CONFIG_ERROR(make_distribution(spec, 4), "use ModelParallel");
}

TEST(DataParallel, RulesAndBatchDimNameAreErrors) {
  auto spec = data_parallel();
  spec.layout_map = {rule("dense/kernel", {{}, {"batch"}})};
  EXPECT_CONFIG_ERROR(make_distribution(spec, 4), "digits.yaml:8:1: DataParallel replicates every variable");
  EXPECT_CONFIG_ERROR(make_distribution(with_batch(data_parallel(), {}), 4), "need ModelParallel");
}

TEST(DataParallel, OneRankSplitsNothing) {
  const auto d = make_distribution(data_parallel(), 1);
  EXPECT_EQ(input_layout(d, "x", {7, 3}), replicated(2));
}

TEST(ModelParallel, NeedsAMesh) {
  auto spec = model_parallel({}, {});
  spec.has_mesh = false;
  EXPECT_CONFIG_ERROR(make_distribution(spec, 4), "digits.yaml:8:1: ModelParallel needs a mesh");
}

TEST(ModelParallel, MeshErrorsHaveThePlace) {
  EXPECT_CONFIG_ERROR(make_distribution(model_parallel({4, 2}, {"batch", "model"}), 6),
                      "digits.yaml:10:11: mesh shape (4, 2) needs 8 ranks");
}

TEST(ModelParallel, KerasExampleOfVariables) {
  const auto d = make_distribution(
      model_parallel({2, 4}, {"data", "model"}, {rule(".*kernel", {{}, {"model"}}), rule(".*bias", {{"model"}})}), 8);
  EXPECT_EQ(layout_text(d, variable_layout(d, "dense/kernel", {4, 8})), "[null, model]");
  EXPECT_EQ(layout_text(d, variable_layout(d, "dense/bias", {8})), "[model]");
  EXPECT_EQ(layout_text(d, variable_layout(d, "dropout/seed_state", {2})), "[null]");
  EXPECT_EQ(layout_text(d, input_layout(d, "x", {8, 3, 3})), "[data, null, null]");
}

TEST(ModelParallel, OutputRuleHitAndMiss) {
  auto spec = model_parallel({2, 4}, {"batch", "model"});
  spec.output_layout_map = {rule("dense_1", {{"batch"}, {}})};
  const auto d = make_distribution(spec, 8);
  EXPECT_EQ(layout_text(d, *output_layout(d, "dense_1", {8, 8})), "[batch, null]");
  EXPECT_EQ(output_layout(d, "dense_2", {8, 8}), std::nullopt);
}

TEST(ModelParallel, BatchDimNameDefaultsToTheFirstAxis) {
  EXPECT_THAT(make_distribution(model_parallel({2}, {"model"}), 2).batch_axes, ElementsAre(0));
}

TEST(ModelParallel, BatchDimNameNullDoesNotSplitTheBatch) {
  const auto d = make_distribution(with_batch(model_parallel({2}, {"model"}), {}), 2);
  EXPECT_THAT(d.batch_axes, IsEmpty());
  EXPECT_EQ(d.batch_shards(), 1);
  EXPECT_EQ(input_layout(d, "x", {7, 3}), replicated(2));
}

TEST(ModelParallel, SeveralBatchAxesKeepTheirOrder) {
  const auto d =
      make_distribution(with_batch(model_parallel({2, 3, 2}, {"replica", "model", "shard"}), {"shard", "replica"}), 12);
  EXPECT_EQ(d.batch_shards(), 4);
  EXPECT_EQ(layout_text(d, input_layout(d, "x", {8, 3})), "[(shard, replica), null]");
}

TEST(ModelParallel, BatchDimNameMustBeAnAxisAndNamedOnce) {
  const auto spec = model_parallel({2, 2}, {"batch", "model"});
  EXPECT_CONFIG_ERROR(
      make_distribution(with_batch(spec, {"bacth"}), 4),
      "digits.yaml:11:21: batch_dim_name: the mesh has no axis 'bacth'; did you mean 'batch'? (axes: batch, "
      "model)");
  EXPECT_CONFIG_ERROR(make_distribution(with_batch(spec, {"batch", "batch"}), 4), "the axis 'batch' twice");
}

TEST(ModelParallel, UnknownAndRepeatedAxesOfARuleAreErrors) {
  EXPECT_CONFIG_ERROR(
      make_distribution(model_parallel({2, 2}, {"batch", "model"}, {rule("dense/kernel", {{}, {"modle"}})}), 4),
      "digits.yaml:13:24: layout_map rule 'dense/kernel': the mesh has no axis 'modle'; did you mean 'model'?");
  EXPECT_CONFIG_ERROR(
      make_distribution(model_parallel({2, 2}, {"batch", "model"}, {rule("dense/kernel", {{"model"}, {"model"}})}), 4),
      "digits.yaml:13:24: layout_map rule 'dense/kernel' uses the axis 'model' twice");
}

TEST(ModelParallel, DuplicateRulesAreErrorsInEveryMap) {
  auto spec = model_parallel({2, 2}, {"batch", "model"});
  spec.output_layout_map = {rule("dense", {{}, {}}), rule("dense", {{}, {}})};
  EXPECT_CONFIG_ERROR(make_distribution(spec, 4), "output_layout_map has the rule 'dense' twice");
}

TEST(ModelParallel, CanonicalOrders) {
  const DeviceMesh mesh({2, 2, 2, 2}, {"a", "b", "c", "d"}, 16);
  EXPECT_THAT(activation_order(mesh, {2, 0}), ElementsAre(2, 0, 1, 3));
  EXPECT_THAT(variable_order(mesh, {2, 0}), ElementsAre(1, 3, 2, 0));
}

TEST(ModelParallel, UsersOrderOfAxesIsCanonicalised) {
  auto spec = model_parallel({2, 4}, {"batch", "model"}, {rule("dense/kernel", {{"batch", "model"}, {}})});
  spec.output_layout_map = {rule("dense", {{"model", "batch"}, {}})};
  spec.data_layout_map = {rule("x", {{"model", "batch"}, {}})};
  const auto d = make_distribution(spec, 8);
  EXPECT_EQ(layout_text(d, variable_layout(d, "dense/kernel", {8, 8})), "[(model, batch), null]");
  EXPECT_EQ(layout_text(d, *output_layout(d, "dense", {8, 8})), "[(batch, model), null]");
  EXPECT_EQ(layout_text(d, input_layout(d, "x", {8, 8})), "[(batch, model), null]");
}

TEST(ModelParallel, AxesOfSizeOneAreDropped) {
  const auto d = make_distribution(model_parallel({1, 2}, {"batch", "model"}, {rule("k", {{"batch"}, {"model"}})}), 2);
  EXPECT_EQ(layout_text(d, variable_layout(d, "k", {7, 4})), "[null, model]");
  EXPECT_EQ(layout_text(d, input_layout(d, "x", {7, 4})), "[null, null]");
}

TEST(ModelParallel, IndivisibleDimensionNamesVariableDimensionAxisAndLegalSizes) {
  const auto d = make_distribution(model_parallel({3}, {"model"}, {rule("dense_1/kernel", {{}, {"model"}})}), 3);
  EXPECT_CONFIG_ERROR(variable_layout(d, "dense_1/kernel", {64, 40}),
                      "digits.yaml:13:24: dense_1/kernel (64, 40): dimension 1 (40) does not divide over axis 'model' "
                      "(3); legal sizes: 1, 2, 4, 5, 8, 10, 20, 40");
}

TEST(ModelParallel, IndivisibleOverSeveralAxesNamesThemAll) {
  const auto d = make_distribution(model_parallel({2, 3}, {"batch", "model"}, {rule("k", {{"batch", "model"}})}), 6);
  EXPECT_CONFIG_ERROR(variable_layout(d, "k", {4}), "does not divide over axes 'model' (3) x 'batch' (2)");
}

TEST(ModelParallel, IfIndivisibleReplicateDropsTheAxesOfThatDimensionAlone) {
  const auto d =
      make_distribution(model_parallel({2, 3}, {"batch", "model"}, {rule("k", {{"batch"}, {"model"}}, true)}), 6);
  EXPECT_EQ(layout_text(d, variable_layout(d, "k", {4, 40})), "[batch, null]");
  EXPECT_EQ(layout_text(d, variable_layout(d, "k", {4, 9})), "[batch, model]");
}

TEST(ModelParallel, AnotherRankThanTheVariableNamesRuleAndVariable) {
  const auto d = make_distribution(model_parallel({2}, {"model"}, {rule(".*kernel", {{"model"}})}), 2);
  EXPECT_CONFIG_ERROR(variable_layout(d, "dense/kernel", {4, 4}),
                      "digits.yaml:13:24: layout_map rule '.*kernel' has 1 entry, but dense/kernel (4, 4) has 2: write "
                      "one entry a dimension, null where it is not split");
}

TEST(ModelParallel, BatchThatDoesNotDivideIsAnError) {
  EXPECT_CONFIG_ERROR(input_layout(make_distribution(data_parallel(), 4), "x", {6, 2}),
                      "input x (6, 2): dimension 0 (6) does not divide over axis 'batch' (4)");
}

// Keras takes the shard from the process order and is wrong when the batch axis isn't the slowest.
TEST(ModelParallel, DataShardComesFromTheMeshCoordinate) {
  const auto d = make_distribution(with_batch(model_parallel({2, 2}, {"model", "batch"}), {"batch"}), 4);
  const auto layout = input_layout(d, "x", {8, 2});
  std::vector<std::int64_t> first_rows;
  for (std::int64_t rank = 0; rank < 4; ++rank)
    first_rows.push_back(owned(layout, d.mesh, d.mesh.coordinates(rank), {8, 2})[0].start[0]);
  EXPECT_THAT(first_rows, ElementsAre(0, 4, 0, 4));
}

TEST(ModelParallel, LocalShapesForModelSizesOneToEight) {
  for (const std::int64_t model : {1, 2, 4, 8}) {
    const auto d = make_distribution(model_parallel({-1, model}, {"batch", "model"},
                                                    {rule("d/kernel", {{}, {"model"}}), rule("d/bias", {{"model"}})}),
                                     8);
    EXPECT_EQ(local_shape(variable_layout(d, "d/kernel", {16, 8}), d.mesh, {16, 8}), (Shape{16, 8 / model}));
    EXPECT_EQ(local_shape(variable_layout(d, "d/bias", {8}), d.mesh, {8}), (Shape{8 / model}));
    EXPECT_EQ(local_shape(input_layout(d, "x", {16, 16}), d.mesh, {16, 16}), (Shape{16 / (8 / model), 16}));
  }
}

TEST(CheckRules, UnmatchedRuleNamesTheNearestPath) {
  const auto d = make_distribution(model_parallel({2}, {"model"}, {rule("dense_1/kernle", {{}, {"model"}})}), 2);
  EXPECT_CONFIG_ERROR(check_rules(d, {"dense_1/bias", "dense_1/kernel"}, {}, {}),
                      "digits.yaml:13:7: layout_map rule 'dense_1/kernle' matches no variable; did you mean "
                      "'dense_1/kernel'?");
}

TEST(CheckRules, RuleWrittenForASearchPrintsTheRuleThatWouldMatch) {
  const auto d = make_distribution(
      model_parallel({2}, {"model"}, {rule("dense", {{}, {"model"}}), rule("^a|b", {{}, {"model"}})}), 2);
  EXPECT_CONFIG_ERROR(check_rules(d, {"dense/kernel", "a/kernel"}, {}, {}), "write '.*dense.*'");
  EXPECT_CONFIG_ERROR(check_rules(d, {"dense/kernel", "a/kernel"}, {}, {}), "write '.*(^a|b).*'");
}

TEST(CheckRules, AllUnmatchedRulesAreReportedTogether) {
  auto spec = model_parallel({2}, {"model"}, {rule("zzz", {{}, {"model"}})});
  spec.output_layout_map = {rule("dnse", {{}, {}})};
  spec.data_layout_map = {rule("q", {{}, {}})};
  const auto d = make_distribution(spec, 2);
  EXPECT_CONFIG_ERROR(check_rules(d, {"dense/kernel"}, {"dense"}, {"x", "y"}),
                      "matches no variable; variables: dense/kernel\n"
                      "digits.yaml:13:7: output_layout_map rule 'dnse' names no layer; did you mean 'dense'?\n"
                      "digits.yaml:13:7: data_layout_map rule 'q' names no input; inputs: x, y");
}

TEST(CheckRules, WarnReturnsTheSentences) {
  auto spec = model_parallel({2}, {"model"}, {rule("dense_1/kernle", {{}, {"model"}})});
  spec.unmatched_rules_warn = true;
  EXPECT_THAT(check_rules(make_distribution(spec, 2), {"dense_1/kernel"}, {}, {}),
              ElementsAre(testing::HasSubstr("did you mean")));
}

TEST(CheckRules, EveryRuleThatMatchesIsSilent) {
  auto spec = model_parallel({2}, {"model"}, {rule(".*/kernel", {{}, {"model"}}), rule("a/kernel", {{}, {}})});
  spec.output_layout_map = {rule("a", {{}, {}})};
  spec.data_layout_map = {rule("sample_weight", {{}})};
  EXPECT_THAT(check_rules(make_distribution(spec, 2), {"a/kernel"}, {"a"}, {"x", "y", "sample_weight"}), IsEmpty());
}

}  // namespace
}  // namespace tessera::mesh
