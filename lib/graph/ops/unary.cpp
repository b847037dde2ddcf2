// y = f(x), element by element;   dx = f'(x) dy, from y where f' is simpler in y, else from x.
#include <algorithm>
#include <array>
#include <string_view>

#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

constexpr std::array<std::string_view, 9> kReadsResult{"relu", "relu6",   "leaky_relu", "elu",        "selu",
                                                       "celu", "sigmoid", "tanh",       "exponential"};

bool reads_result(const Attributes& attributes) {
  return std::ranges::find(kReadsResult, attributes.get<std::string>("function")) != kReadsResult.end();
}

OpTraits traits(const Attributes& attributes, std::span<const TensorInfo> operands) {
  auto t = elementwise_traits(operands);
  if (reads_result(attributes))
    t.saves_result = {0};
  else
    t.saves = {{0, {0}}};
  return t;
}

std::string program(const Attributes& attributes, const std::string& suffix, const std::string& arguments) {
  const auto text = attributes.get<std::string>("function") + suffix + " " + arguments;
  return attributes.has("parameter") ? step(text, attributes.get<double>("parameter")) : text;
}

void forward(Emit& e) {
  e.kernel("elementwise", {e.input(0)}, {e.result()}, {{"program", program(e.node().attributes, "", "i0")}});
}

void backward(Emit& e) {
  const auto& attributes = e.node().attributes;
  const Value read = reads_result(attributes) ? e.result() : e.input(0);
  write_cotangent(e, 0, [&](Value dx) {
    e.kernel("elementwise", {read, e.cotangent()}, {dx}, {{"program", program(attributes, "_grad", "i0 i1")}});
  });
}

}  // namespace

const Op kUnary{"unary", traits, forward, backward};

}  // namespace tessera::graph
