// The same values in another dtype. From integers there is no gradient.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

OpTraits traits(const Attributes& attributes, std::span<const TensorInfo> operands) {
  auto t = elementwise_traits(operands);
  t.dtype = parse_dtype(attributes.get<std::string>("dtype"));
  return t;
}

void forward(Emit& e) { e.kernel("cast", {e.input(0)}, {e.result()}); }

void backward(Emit& e) {
  write_cotangent(e, 0, [&](Value dx) { e.kernel("cast", {e.cotangent()}, {dx}); });
}

}  // namespace

const Op kCast{"cast", traits, forward, backward};

}  // namespace tessera::graph
