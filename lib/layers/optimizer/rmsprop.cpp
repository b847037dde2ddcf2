// Keras RMSprop (Tieleman, Hinton 2012): epsilon inside the root; the momentum holds the scaled steps.
#include "graph/ops/ops.h"
#include "layers/optimizer.h"

namespace tessera::layers {
namespace {

struct RmspropConfig : OptimizerConfig {
  double rho = 0.9, momentum = 0, epsilon = 1e-7;
  bool centered = false;
};

int rmsprop(WeightUpdate& w, const RmspropConfig& c) {
  std::vector<int> slots{w.slot("velocity")};
  if (c.centered) slots.push_back(w.slot("average_gradient"));
  if (c.momentum > 0) slots.push_back(w.slot("momentum"));
  return w.apply(graph::kRmspropUpdate, slots,
                 {{"rho", c.rho}, {"momentum", c.momentum}, {"epsilon", c.epsilon}, {"centered", c.centered}});
}

}  // namespace

void add_rmsprop(OptimizerRegistry& r) {
  using config::field;
  using C = RmspropConfig;
  r.add("RMSprop", {"rmsprop"}, "rm_sprop", rmsprop,
        {field("rho", &C::rho, 0.9, config::in_0_1), field("momentum", &C::momentum, 0.0, config::in_0_1),
         field("epsilon", &C::epsilon, 1e-7, config::non_negative), field("centered", &C::centered, false)});
}

}  // namespace tessera::layers
