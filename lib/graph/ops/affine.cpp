// y = scale x + offset, with constants;   dx = scale dy.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

OpTraits traits(const Attributes& attributes, std::span<const TensorInfo> operands) {
  auto t = elementwise_traits(operands);
  if (attributes.get<double>("offset") == 0) t.linear = {{0}};
  return t;
}

void forward(Emit& e) {
  const auto& a = e.node().attributes;
  e.kernel("elementwise", {e.input(0)}, {e.result()},
           {{"program", step("affine i0", a.get<double>("scale"), a.get<double>("offset"))}});
}

void backward(Emit& e) {
  write_cotangent(e, 0, [&](Value dx) {
    e.kernel("elementwise", {e.cotangent()}, {dx},
             {{"program", step("affine i0", e.node().attributes.get<double>("scale"), 0)}});
  });
}

}  // namespace

const Op kAffine{"affine", traits, forward, backward};

}  // namespace tessera::graph
