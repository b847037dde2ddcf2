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

}  // namespace
}  // namespace tessera::partition
