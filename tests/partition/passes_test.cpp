#include "partition/passes.h"

#include <gtest/gtest.h>

#include "graph/ops/ops.h"
#include "partition/plan.h"
#include "partition/program_builder.h"

namespace tessera::partition {
namespace {

using Kind = graph::GraphOutput::Kind;

/// x (8, 16) and layers over it, on one device.
struct OneDevice {
  graph::Model model;
  int x = model.main.add_input("x", {8, 16}, DType::kF32, 0);

  int matmul(const std::string& layer, int from, std::int64_t units) {
    graph::Variable kernel;
    kernel.path = layer + "/kernel";
    const int w = model.main.add_variable(kernel, {model.main.node(from).shape().back(), units}, DType::kF32);
    return model.main.add_op(graph::kMatmul, layer + "/matmul", layer, {from, w}, {});
  }
  int unary(const std::string& layer, int from, const Attributes& attributes) {
    return model.main.add_op(graph::kUnary, layer + "/unary", layer, {from}, attributes);
  }

  /// The program that hands out these nodes.
  Program predict(const std::vector<int>& outputs) {
    for (const int node : outputs) model.outputs.push_back({Kind::kPrediction, model.main.node(node).name, node});
    model.main.differentiate(-1);
    mesh::Distribution distribution;
    PlanRequest request;
    request.distribution = &distribution;
    request.hardware = load_hardware("cpu");
    request.models = {{"predict", &model}};
    const auto plan = make_plan(request);
    const auto& program = plan.programs.at("predict");
    EXPECT_EQ(check(plan, program), std::vector<std::string>{});
    return program;
  }
};

std::vector<const KernelCall*> kernels(const Program& program) {
  std::vector<const KernelCall*> calls;
  for (const auto& i : program.body.instructions)
    if (const auto* call = std::get_if<KernelCall>(&i.what)) calls.push_back(call);
  return calls;
}

class FusedActivation : public ::testing::TestWithParam<std::pair<std::string, std::optional<double>>> {};

TEST_P(FusedActivation, IsDoneByTheMatmulWithItsConstant) {
  const auto& [function, constant] = GetParam();
  OneDevice device;
  Attributes attributes{{"function", function}};
  if (constant) attributes.set("parameter", *constant);
  const auto program = device.predict({device.unary("act", device.matmul("dense", device.x, 4), attributes)});
  const auto calls = kernels(program);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0]->kernel, "matmul");
  EXPECT_EQ(calls[0]->attributes.get<std::string>("activation"), function);
  EXPECT_EQ(calls[0]->attributes.has("alpha"), constant.has_value());
  if (constant) {
    EXPECT_EQ(calls[0]->attributes.get<double>("alpha"), *constant);
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, FusedActivation,
                         ::testing::Values(std::pair{"relu", std::nullopt}, std::pair{"gelu", std::nullopt},
                                           std::pair{"leaky_relu", 0.3}, std::pair{"elu", 1.5},
                                           std::pair{"celu", 0.1}));

// The sum is handed out: it may lie where its first term did, but the next function must not lie on it.
TEST(WriteInPlace, KeepsWhatWasWrittenInPlaceAndIsHandedOut) {
  OneDevice device;
  const int a = device.matmul("a", device.x, 16), b = device.matmul("b", device.x, 16);
  const int sum = device.model.main.add_op(graph::kAdd, "sum/add", "sum", {a, b}, {});
  const auto program = device.predict({sum, device.unary("tanh", sum, {{"function", std::string("tanh")}})});
  ASSERT_EQ(program.outputs.size(), 2U);
  EXPECT_NE(root_of(program, program.outputs[0].value), program.outputs[0].value) << "nothing was done in place";
  EXPECT_NE(root_of(program, program.outputs[0].value), root_of(program, program.outputs[1].value));
}

/// The update of two weights by their gradients: values of an epilogue, and what it does in this order.
struct Epilogue {
  Program program;
  Section& section = program.epilogues["apply"];

  int add_value(const std::string& name) {
    program.values.emplace_back().name = name;
    return static_cast<int>(program.values.size()) - 1;
  }
  int add_value_of(const std::string& kernel, const std::vector<int>& inputs) {
    const int result = add_value(kernel);
    add(kernel, inputs, result);
    return result;
  }
  void add(const std::string& kernel, const std::vector<int>& inputs, int output) {
    section.instructions.emplace_back().what = KernelCall{kernel, inputs, {output}, {}};
  }
  std::vector<std::string> fused() {
    fuse_gradient_norm(program);
    std::vector<std::string> names;
    for (const auto& i : section.instructions) names.push_back(std::get<KernelCall>(i.what).kernel);
    return names;
  }
  const KernelCall& call(std::size_t index) const { return std::get<KernelCall>(section.instructions[index].what); }

  int w1 = add_value("w1"), w2 = add_value("w2"), g1 = add_value("g1"), g2 = add_value("g2");
  int s1 = add_value_of("sum_squares", {g1}), s2 = add_value_of("sum_squares", {g2});
  int total = add_value_of("add_n", {s1, s2});
};

TEST(GradientNorm, IsHandedOutByTheUpdatesAndAddedUpBehindThem) {
  Epilogue e;
  e.add_value_of("adam_update", {e.w1, e.g1});
  const int w2 = e.add_value_of("sgd_update", {e.w2, e.g2});
  ASSERT_EQ(e.fused(), (std::vector<std::string>{"adam_update", "sgd_update", "add_n"}));
  EXPECT_EQ(e.call(0).outputs.back(), e.s1);
  EXPECT_EQ(e.call(1).outputs, (std::vector<int>{w2, e.s2}));
  EXPECT_TRUE(e.call(1).attributes.get<bool>("sum_squares"));
}

TEST(GradientNorm, StaysBeforeUpdatesThatItClips) {
  Epilogue e;
  e.add_value_of("sgd_update", {e.w1, e.add_value_of("clip_by_norm", {e.g1, e.total})});
  e.add_value_of("sgd_update", {e.w2, e.g2});  // this one could hand out its sum, which the other one waits for
  EXPECT_EQ(e.fused(), (std::vector<std::string>{"sum_squares", "sum_squares", "add_n", "clip_by_norm", "sgd_update",
                                                 "sgd_update"}));
}

TEST(GradientNorm, StaysWhereWhatReadsItIsOverwrittenLater) {
  Epilogue e;
  e.add_value_of("sgd_update", {e.w1, e.g1});
  e.add_value_of("copy", {e.s2, e.w2});
  e.add("sgd_update", {e.w2, e.g2}, e.w2);
  EXPECT_EQ(e.fused().front(), "sum_squares");
}

}  // namespace
}  // namespace tessera::partition
