// Keras SGD: m = momentum m - lr g; w += m, Nesterov w += momentum m - lr g; without momentum w -= lr g.
#include "graph/ops/ops.h"
#include "layers/optimizer.h"

namespace tessera::layers {
namespace {

struct SgdConfig : OptimizerConfig {
  double momentum = 0;
  bool nesterov = false;
};

int sgd(WeightUpdate& w, const SgdConfig& c) {
  std::vector<int> slots;
  if (c.momentum != 0) slots.push_back(w.slot("momentum"));
  return w.apply(graph::kSgdUpdate, slots, {{"momentum", c.momentum}, {"nesterov", c.nesterov}});
}

}  // namespace

void add_sgd(OptimizerRegistry& r) {
  using config::field;
  using C = SgdConfig;
  r.add("SGD", {"sgd"}, "sgd", sgd,
        {documented(field("learning_rate", &C::learning_rate, "0.01"), kLearningRateType),
         field("momentum", &C::momentum, 0.0, config::in_0_1), field("nesterov", &C::nesterov, false)});
}

}  // namespace tessera::layers
