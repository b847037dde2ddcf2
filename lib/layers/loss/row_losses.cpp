// Losses that are a mean over the last dimension of a function of one element: mean squared and absolute error, Huber,
// binary cross-entropy.
#include "graph/ops/ops.h"
#include "layers/loss.h"

namespace tessera::layers {
namespace {

struct ErrorConfig : LossConfig {};
struct HuberConfig : LossConfig {
  double delta = 1;
};
struct BinaryConfig : LossConfig {
  bool from_logits = false;
  double label_smoothing = 0;
};

Tensor mean_squared_error(Builder& b, const ErrorConfig&, Tensor prediction, Tensor target) {
  return b.op(graph::kRowLoss, "mse", {prediction, target}, {{"loss", std::string("mse")}});
}

Tensor mean_absolute_error(Builder& b, const ErrorConfig&, Tensor prediction, Tensor target) {
  return b.op(graph::kRowLoss, "mae", {prediction, target}, {{"loss", std::string("mae")}});
}

Tensor huber(Builder& b, const HuberConfig& c, Tensor prediction, Tensor target) {
  return b.op(graph::kRowLoss, "huber", {prediction, target}, {{"loss", std::string("huber")}, {"delta", c.delta}});
}

Tensor binary_crossentropy(Builder& b, const BinaryConfig& c, Tensor prediction, Tensor target) {
  return b.op(graph::kRowLoss, "binary_crossentropy", {prediction, target},
              {{"loss", std::string("binary_crossentropy")},
               {"from_logits", c.from_logits},
               {"label_smoothing", c.label_smoothing}});
}

}  // namespace

void add_row_losses(LossRegistry& r) {
  constexpr auto kTarget = Target::kLikePrediction;
  r.add("MeanSquaredError", {"mean_squared_error", "mse", "MSE"}, kTarget, mean_squared_error, {});
  r.add("MeanAbsoluteError", {"mean_absolute_error", "mae", "MAE"}, kTarget, mean_absolute_error, {});
  r.add("Huber", {"huber"}, kTarget, huber, {config::field("delta", &HuberConfig::delta, 1.0, config::positive)});
  r.add("BinaryCrossentropy", {"binary_crossentropy", "bce", "BCE"}, kTarget, binary_crossentropy,
        {config::field("from_logits", &BinaryConfig::from_logits, false),
         config::field("label_smoothing", &BinaryConfig::label_smoothing, 0.0, config::in_0_1),
         unsupported<BinaryConfig>("axis", "-1")});
}

}  // namespace tessera::layers
