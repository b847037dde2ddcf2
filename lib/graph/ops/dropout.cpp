// y = x / (1 - rate) where Philox keeps the element, else 0 (Srivastava et al. 2014, inverted). The backward pass draws
// the same mask again, so nothing is saved; the mask belongs to the global element, so a partial x is fine.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

OpTraits traits(const Attributes&, std::span<const TensorInfo> operands) {
  auto t = elementwise_traits(operands);
  t.linear = {{0}};
  return t;
}

Attributes kernel_attributes(const Emit& e) {
  auto attributes = e.node().attributes;
  attributes.set("seed_rows", e.node().shape()[0]);
  return attributes;
}

void forward(Emit& e) { e.kernel("dropout", {e.input(0)}, {e.result()}, kernel_attributes(e)); }

void backward(Emit& e) {
  write_cotangent(e, 0, [&](Value dx) { e.kernel("dropout", {e.cotangent()}, {dx}, kernel_attributes(e)); });
}

}  // namespace

const Op kDropout{"dropout", traits, forward, backward};

}  // namespace tessera::graph
