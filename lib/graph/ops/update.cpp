// Optimizer updates. The result is the new weight; operands 2, 3, ... are slots that the kernel writes in place.
#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

OpTraits traits(const Attributes&, std::span<const TensorInfo> operands) { return elementwise_traits(operands); }

/// w, g, slots... -> w', slots...
void update_forward(Emit& e) {
  std::vector<Value> inputs;
  std::vector<Value> outputs{e.result()};
  for (std::size_t k = 0; k < e.node().args.size(); ++k) {
    inputs.push_back(e.input(static_cast<int>(k)));
    if (k >= 2) outputs.push_back(inputs.back());
  }
  e.kernel(std::string(e.node().op->name), inputs, outputs, e.node().attributes);
}

}  // namespace

const Op kSgdUpdate{"sgd_update", traits, update_forward, nullptr};
const Op kAdamUpdate{"adam_update", traits, update_forward, nullptr};
const Op kRmspropUpdate{"rmsprop_update", traits, update_forward, nullptr};
const Op kEmaUpdate{"ema_update", traits, emit_forward, nullptr};
const Op kEmaOverwrite{"ema_overwrite", traits, emit_forward, nullptr};

}  // namespace tessera::graph
