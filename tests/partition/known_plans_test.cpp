#include <gtest/gtest.h>

#include "partition/summary.h"
#include "partition/test_models.h"

// Graphs whose best plans are known: from the literature, and from an independent implementation of the same rules. The
// times are exact: not a femtosecond may change unnoticed.
namespace tessera::partition::testing {
namespace {

struct Setup {
  mesh::DeviceMesh mesh;
  std::vector<std::string> batch;
};

Setup m24() { return {{{2, 4}, {"batch", "model"}, 8}, {"batch"}}; }
Setup m42() { return {{{4, 2}, {"model", "batch"}, 8}, {"batch"}}; }
Setup m8() { return {{{8}, {"model"}, 8}, {"model"}}; }
Setup m8n() { return {{{8}, {"model"}, 8}, {}}; }
Setup m4() { return {{{4}, {"model"}, 4}, {}}; }
Setup b8() { return {{{8}, {"batch"}, 8}, {"batch"}}; }
Setup m23() { return {{{2, 3}, {"batch", "model"}, 6}, {"batch"}}; }
Setup m222() { return {{{2, 2, 2}, {"batch", "m1", "m2"}, 8}, {"batch"}}; }
Setup ctx() { return {{{2, 4}, {"batch", "context"}, 8}, {"batch"}}; }
Setup m224() { return {{{2, 2, 4}, {"batch", "context", "model"}, 16}, {"batch"}}; }
Setup m2222() { return {{{2, 2, 2, 2}, {"batch", "context", "m1", "m2"}, 16}, {"batch"}}; }

const Dims kContext{{"batch"}, {"context"}};
const Rules nowhere = by_name({});

void expect_plan(const Setup& setup, const TestGraph& graph, std::int64_t time_fs, std::int64_t penalty,
                 std::size_t warnings, const std::string& collectives) {
  auto hardware = h100x8();
  hardware.devices_per_node = 16;
  auto input = graph.solver_input(setup.mesh, setup.batch, hardware);
  const auto assignment = solve(input);
  EXPECT_EQ(summary(input, assignment), collectives);
  EXPECT_EQ(assignment.time_fs, time_fs);
  EXPECT_EQ(assignment.penalty, penalty);
  EXPECT_EQ(assignment.warnings.size(), warnings) << ::testing::PrintToString(assignment.warnings);
  EXPECT_EQ(time_from_moves(input, assignment), time_fs);
  input.table_limit = 1;
  const auto by_axis = solve(input);
  EXPECT_EQ(by_axis.how.starts_with("axis by axis"), assignment.joint_table > 1);
  EXPECT_EQ(by_axis.time_fs, time_fs);
  EXPECT_EQ(by_axis.penalty, penalty);
}

TestGraph megatron_mlp() {
  std::map<std::string, Dims> rules;
  for (int i = 1; i < 5; ++i) {
    const auto name = "dense_" + std::to_string(i);
    rules[name + "/kernel"] = i % 2 == 1 ? Dims{{}, {"model"}} : Dims{{"model"}, {}};
    if (i % 2 == 1) rules[name + "/bias"] = {{"model"}};
  }
  return mlp(512, {1024, 4096, 1024, 4096, 1024}, by_name(rules), false);
}

Rules only(const std::vector<std::string>& names) {
  return [names](const std::string& name, const Shape& shape) {
    return std::find(names.begin(), names.end(), name) == names.end() ? std::nullopt : megatron()(name, shape);
  };
}

// Every kernel over the batch axis.
std::optional<Dims> fully_sharded(const std::string& name, const Shape& shape) {
  if (shape.size() < 2) return std::nullopt;
  if (name == "wq" || name == "wk" || name == "wv") return Dims{{}, {"batch"}, {}};
  Dims dims(shape.size());
  dims.back() = {"batch"};
  return dims;
}

TransformerConfig grouped(bool heads = true) {
  return {.d = 2048, .f = 8192, .kv = 2, .rules = only({"wq", "wo", "w1", "b1", "w2", "emb", "head"}), .heads = heads};
}

TransformerConfig grouped_over_two_axes() {
  auto config = grouped();
  config.rules = [](const std::string& name, const Shape& shape) {
    return name == "wk" || name == "wv" ? std::optional(Dims{{}, {"m1"}, {}}) : megatron({"m1", "m2"})(name, shape);
  };
  return config;
}

Rules transposed() {
  return by_name({{"emb", {{}, {"model"}}},
                  {"wq", {{"model"}, {}, {}}},
                  {"wk", {{"model"}, {}, {}}},
                  {"wv", {{"model"}, {}, {}}},
                  {"wo", {{}, {}, {"model"}}},
                  {"w1", {{"model"}, {}}},
                  {"w2", {{}, {"model"}}},
                  {"head", {{"model"}, {}}}});
}

Rules megatron_with_norms() {
  return [](const std::string& name, const Shape& shape) {
    return name == "gamma" ? std::optional(Dims{{"model"}}) : megatron()(name, shape);
  };
}

TEST(KnownPlans, SeedWithColumnsOverModelReducesTheSmallLogitsOnly) {
  expect_plan(m24(),
              mlp(256, {1024, 4096, 10}, by_name({{"dense_1/kernel", {{}, {"model"}}}, {"dense_1/bias", {{"model"}}}})),
              107497969332, 0, 0,
              R"(fwd: 1 AR@model 7680
grad: 1 AG@model 122880, 4 AR@batch 4239400
)");
}

TEST(KnownPlans, KernelOverTheBatchAxisIsGathered) {
  expect_plan(m8(), mlp(256, {1024, 4096, 10}, by_name({{"dense_1/kernel", {{"model"}, {}}}})), 204158421331, 0, 0,
              R"(grad: 3 AR@model 315462, 1 RS@model 14680064
weight: 1 AG@model 14680064
)");
}

TEST(KnownPlans, KernelOverAnAxisThatDoesNotSplitTheBatchStays) {
  expect_plan(m8n(), mlp(256, {1024, 4096, 10}, by_name({{"dense_1/kernel", {{"model"}, {}}}})), 129748053331, 0, 0,
              R"(bwd: 1 AG@model 3670016
fwd: 1 RS@model 3670016
grad: 3 AR@model 315462
)");
}

TEST(KnownPlans, MegatronMlp) {
  expect_plan(m4(), megatron_mlp(), 275679684000, 0, 0,
              R"(bwd: 1 AR@model 3145728
fwd: 2 AR@model 6291456
)");
}

TEST(KnownPlans, MegatronTransformer) {
  expect_plan(m24(), transformer({.blocks = 2}), 2238147243802, 0, 0,
              R"(bwd: 5 AR@model 62914560
fwd: 5 AR@model 62914560
fwd.inner: 2 AR@model 73728
grad: 28 AR@batch 92332032
)");
}

TEST(KnownPlans, PinnedResidualIsSequenceParallel) {
  expect_plan(m24(), transformer({.blocks = 2, .pin = Dims{{"batch"}, {"model"}, {}}}), 2569194177127, 0, 0,
              R"(bwd: 5 AG@model 31457280, 5 RS@model 31457280
fwd: 5 AG@model 31457280, 5 RS@model 31457280
fwd.inner: 2 AR@model 73728
grad: 16 AR@batch 92282880, 12 AR@batch+model 86016
rep: 5 AG@model 31457280
)");
}

TEST(KnownPlans, FullySharded) {
  expect_plan(b8(), transformer({.blocks = 2, .rules = fully_sharded}), 3769682814552, 0, 0,
              R"(grad: 14 AR@batch 143360, 14 RS@batch 322961408
weight: 14 AG@batch 161480704
weight.rep: 13 AG@batch 102760448
)");
}

// On (batch, model) and on (model, batch): the order of the mesh's axes changes nothing.
TEST(KnownPlans, FullyShardedTensorParallelOnOneDimension) {
  for (const auto& mesh : {m24(), m42()})
    expect_plan(mesh, transformer({.blocks = 2, .rules = megatron({"model", "batch"})}), 2622334721114, 0, 0,
                R"(bwd: 5 AR@model 62914560
fwd: 5 AR@model 62914560
fwd.inner: 2 AR@model 73728
grad: 12 AR@batch 49152, 16 RS@batch 46141440
weight: 16 AG@batch 23070720
weight.rep: 13 AG@batch 14680064
)");
}

TEST(KnownPlans, ZeroStage1ReducesToTheSlots) {
  expect_plan(b8(), transformer({.rules = nowhere, .zero_stage = 1}), 1759248848496, 0, 0,
              R"(grad: 16 RS@batch 278960640
update: 16 AG@batch 278960640
)");
}

TEST(KnownPlans, ZeroStage3GathersTwice) {
  expect_plan(b8(), transformer({.rules = nowhere, .zero_stage = 3}), 2753335675153, 0, 0,
              R"(grad: 16 RS@batch 278960640
weight: 16 AG@batch 139480320
weight.rep: 10 AG@batch 80745728
)");
}

TEST(KnownPlans, TiedVocabularyHasOneTableGradient) {
  expect_plan(m24(), transformer({.rules = only({"emb"}), .tied = true}), 1387969509834, 0, 0,
              R"(bwd: 1 AG@model 6291456, 1 RS@model 6291456
fwd: 1 AG@model 6291456, 1 RS@model 6291456
fwd.inner: 2 AR@model 73728
grad: 1 AR@batch 33554432, 14 AR@batch+model 88159232
rep: 1 AG@model 6291456
)");
}

TEST(KnownPlans, UntiedVocabularyHasTwo) {
  expect_plan(m24(), transformer({.rules = only({"emb", "head"})}), 1478040400500, 0, 0,
              R"(bwd: 1 AG@model 6291456, 1 RS@model 6291456
fwd: 1 AG@model 6291456, 1 RS@model 6291456
fwd.inner: 2 AR@model 73728
grad: 2 AR@batch 67108864, 14 AR@batch+model 88159232
rep: 1 AG@model 6291456
)");
}

TEST(KnownPlans, PostNormReducesOnceAHub) {
  expect_plan(m24(), transformer({.blocks = 2, .post_norm = true}), 2214158251802, 0, 0,
              R"(bwd: 1 AG@model 6291456, 4 AR@model 50331648, 1 RS@model 6291456
fwd: 1 AG@model 6291456, 4 AR@model 50331648, 1 RS@model 6291456
fwd.inner: 2 AR@model 73728
grad: 23 AR@batch 92311552, 5 AR@batch+model 35840
rep: 1 AG@model 6291456
)");
}

TEST(KnownPlans, FewerKvHeadsThanRanksUseTheLoweringHeads) {
  expect_plan(m24(), transformer(grouped()), 2835831876551, 0, 0,
              R"(bwd: 3 AR@model 75497472
fwd: 3 AR@model 75497472
fwd.inner: 2 AR@model 73728
grad: 14 AR@batch 176226304, 2 AR@batch+model 7340032
)");
}

TEST(KnownPlans, WithoutTheLoweringHeadsQIsSplitByRows) {
  expect_plan(m24(), transformer(grouped(false)), 2918516847215, 0, 0,
              R"(bwd: 2 A2A@model 6291456, 3 AG@model 37748736, 3 RS@model 37748736
fwd: 2 A2A@model 6291456, 3 AG@model 37748736, 3 RS@model 37748736
fwd.inner: 2 AR@model 73728
grad: 7 AR@batch 176168960, 9 AR@batch+model 7440384
rep: 3 AG@model 37748736
)");
}

TEST(KnownPlans, GroupsOverOneAxisAndTheirHeadsOverTheNext) {
  expect_plan(m222(), transformer(grouped_over_two_axes()), 2818705135219, 0, 0,
              R"(bwd: 3 AR@m1+m2 75497472
fwd: 3 AR@m1+m2 75497472
fwd.inner: 2 AR@m1+m2 73728
grad: 14 AR@batch 176226304, 2 AR@batch+m2 3145728
)");
}

TEST(KnownPlans, ConvNetWithBatchNorm) {
  expect_plan(b8(), conv_net(64), 182958777329, 0, 0,
              R"(bwd.inner: 2 AR@batch 1344
fwd.inner: 2 AR@batch 1344
grad: 7 AR@batch 597184
)");
}

TEST(KnownPlans, TwoTowersAreGatheredForConcat) {
  expect_plan(m24(), two_towers(256, 1024, {{"tower", {{}, {"model"}}}, {"bias", {{"model"}}}, {"top", {{}, {}}}}),
              153069678664, 0, 0,
              R"(fwd: 2 AG@model 786432
grad: 5 AR@batch 2131968
)");
}

TEST(KnownPlans, SumOfPartialScalarsIsFree) {
  expect_plan(m24(), two_towers(256, 1024, {{"top", {{"model"}, {}}}}, true), 203423785330, 0, 1,
              R"(bwd: 1 AG@model 786432
fwd: 1 AR@model 3072
grad: 5 AR@batch 8404992
)");
}

TEST(KnownPlans, KernelOnAWholeDimensionPaysAPenalty) {
  expect_plan(m23(), conv_net(60, Dims{{"model"}, {}, {}, {}}), 195518048664, 1, 1,
              R"(bwd.inner: 2 AR@batch+model 1279
fwd.inner: 2 AR@batch+model 1279
grad: 1 AR@batch 1536, 6 AR@batch+model 561067, 1 RS@model 3072
weight: 1 AG@model 3072
)");
}

TEST(KnownPlans, UnmentionedAxisStaysIdleWhereItSavesLittle) {
  expect_plan(m24(), mlp(30, {64, 40, 24, 10}, nowhere), 110095919999, 0, 1,
              R"(grad: 6 AR@batch 15336
)");
}

TEST(KnownPlans, UnmentionedAxisSplitsTheBatchWhereItPays) {
  expect_plan(m24(), mlp(4096, {4096, 8192, 8192, 16}, nowhere), 3301168072690, 0, 0,
              R"(grad: 6 AR@batch+model 705675376
)");
}

TEST(KnownPlans, SequenceOverContextRunsTheRing) {
  expect_plan(ctx(), transformer({.blocks = 2, .b = 2, .s = 8192, .rules = nowhere, .ids = kContext}), 4675650440814, 0,
              0,
              R"(bwd: 1 AG@context 12582912
bwd.inner: 2 RING@context 184549376
fwd: 1 AG@context 24576
fwd.inner: 2 RING@context 50331648
grad: 1 AR@batch 134217728, 27 AR@batch+context 411185152
rep: 1 AG@context 24576
)");
}

TEST(KnownPlans, WithoutTheRingHeadsGoOverContext) {
  expect_plan(ctx(), transformer({.blocks = 2, .b = 2, .s = 8192, .rules = nowhere, .ring = false, .ids = kContext}),
              4821282690836, 0, 0,
              R"(bwd: 5 A2A@context 15728640, 1 AG@context 12582912, 1 AR@context 25165824
fwd: 5 A2A@context 15728640, 1 AG@context 24576
grad: 3 AG@context 9437184, 6 AR@batch 137371648, 22 AR@batch+context 389150720
rep: 1 AG@context 24576
)");
}

TEST(KnownPlans, EnoughRowsNeedNoRing) {
  expect_plan(ctx(), transformer({.blocks = 2, .s = 8192, .rules = nowhere, .ids = kContext}), 10208221437720, 0, 0,
              R"(bwd: 1 A2A@context 12582912
fwd: 2 A2A@context 12607488, 1 AG@context 98304
grad: 1 AG@context 100663296, 1 AR@batch 33554432, 27 AR@batch+context 411185152
rep: 1 AG@context 98304
)");
}

TEST(KnownPlans, TransposedRulesMoveActivationsAndNoVariable) {
  expect_plan(m24(), transformer({.blocks = 2, .rules = transposed()}), 4442985766682, 0, 1,
              R"(bwd: 1 AG@model 201326592, 4 AR@model 125829120
bwd.inner: 5 AR@model 245760
fwd: 8 AR@model 176160768, 1 RS@model 201326592
fwd.inner: 5 AR@model 245760
grad: 12 AG@model 36864, 28 AR@batch 92319744
)");
}

TEST(KnownPlans, SplitNormScaleStaysInPlace) {
  expect_plan(m24(), transformer({.rules = megatron_with_norms()}), 1775981809775, 0, 0,
              R"(bwd: 3 AG@model 18874368, 3 RS@model 18874368
bwd.inner: 3 AR@model 147456
fwd: 3 AG@model 18874368, 3 RS@model 18874368
fwd.inner: 5 AR@model 221184
grad: 4 AG@model 12288, 16 AR@batch 79703040
rep: 3 AG@model 18874368
)");
}

TEST(KnownPlans, MaskReadByEveryBlock) {
  expect_plan(m224(), transformer({.blocks = 4, .mask = true, .ids = kContext}), 2807615451593, 0, 0,
              R"(bwd: 1 AG@context 4194304, 9 AR@model 56623104
fwd: 2 A2A@context 6144, 1 AG@context 8192, 9 AR@model 56623104
fwd.inner: 2 AR@model 36864
grad: 1 AR@batch 33554432, 51 AR@batch+context 125988864
rep: 1 AG@context 8192
)");
}

TEST(KnownPlans, EncoderDecoderOnThreeAxes) {
  expect_plan(m224(), transformer({.blocks = 4, .encoder = true, .ids = kContext}), 6166384456816, 0, 0,
              R"(bwd: 2 AG@context 8388608, 22 AR@model 138412032
fwd: 1 A2A@context 4096, 2 AG@context 16384, 22 AR@model 138412032
fwd.inner: 2 AR@model 36864
grad: 2 AR@batch 67108864, 123 AR@batch+context 226848768
rep: 2 AG@context 16384
)");
}

TEST(KnownPlans, EncoderDecoderOnTwoAxes) {
  expect_plan(m24(), transformer({.blocks = 4, .encoder = true}), 8268938810272, 0, 0,
              R"(bwd: 22 AR@model 276824064
fwd: 22 AR@model 276824064
fwd.inner: 2 AR@model 73728
grad: 125 AR@batch 218341376
)");
}

TEST(KnownPlans, EncoderDecoderOnFourAxesGoesAxisByAxis) {
  expect_plan(
      m2222(),
      transformer({.blocks = 2, .rules = megatron({"m1", "m2"}), .mask = true, .encoder = true, .ids = kContext}),
      3573815490842, 0, 0,
      R"(bwd: 2 AG@context 8388608, 12 AR@m1+m2 75497472
fwd: 2 A2A@context 6144, 2 AG@context 16384, 12 AR@m1+m2 75497472
fwd.inner: 2 AR@m1+m2 36864
grad: 2 AR@batch 67108864, 63 AR@batch+context 138596352
rep: 2 AG@context 16384
)");
}

}  // namespace
}  // namespace tessera::partition::testing
