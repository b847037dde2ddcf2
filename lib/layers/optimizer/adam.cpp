// Adam (Kingma, Ba 2014) and AdamW (Loshchilov, Hutter 2017), which differ in the decay's default alone: Keras
// decouples the decay of every optimizer.
#include "graph/ops/ops.h"
#include "layers/optimizer.h"

namespace tessera::layers {
namespace {

struct AdamConfig : OptimizerConfig {
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
  bool amsgrad = false;
};

int adam(WeightUpdate& w, const AdamConfig& c) {
  std::vector<int> slots{w.slot("momentum"), w.slot("velocity")};
  if (c.amsgrad) slots.push_back(w.slot("velocity_hat"));
  return w.apply(graph::kAdamUpdate, slots,
                 {{"beta_1", c.beta_1}, {"beta_2", c.beta_2}, {"epsilon", c.epsilon}, {"amsgrad", c.amsgrad}});
}

std::vector<config::Field<AdamConfig>> fields() {
  using C = AdamConfig;
  return {config::field("beta_1", &C::beta_1, 0.9, config::at_least(0) | config::below(1)),
          config::field("beta_2", &C::beta_2, 0.999, config::at_least(0) | config::below(1)),
          config::field("epsilon", &C::epsilon, 1e-7, config::non_negative),
          config::field("amsgrad", &C::amsgrad, false)};
}

}  // namespace

void add_adam(OptimizerRegistry& r) {
  r.add("Adam", {"adam"}, "adam", adam, fields());
  auto decayed = fields();
  decayed.push_back(config::field("weight_decay", &AdamConfig::weight_decay, 0.004, config::non_negative));
  r.add("AdamW", {"adamw"}, "adam_w", adam, decayed);
}

}  // namespace tessera::layers
