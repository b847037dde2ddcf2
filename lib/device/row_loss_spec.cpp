#include "device/row_loss_spec.h"

namespace tessera::device {

RowLossOptions parse_row_loss(const KernelSpec& spec) {
  const auto& a = spec.attributes;
  const auto& name = a.get<std::string>("loss");
  const auto global = global_of(spec.inputs.at(0));
  const auto cols = global.empty() ? 1 : static_cast<double>(global.back());
  RowLossOptions o{.delta = static_cast<float>(number_or(a, "delta", 1)),
                   .smoothing = static_cast<float>(number_or(a, "label_smoothing", 0)),
                   .scale = 1 / number_or(a, "denominator", cols)};
  if (name == "mse") {
    o.kind = RowLoss::kMse;
  } else if (name == "mae") {
    o.kind = RowLoss::kMae;
  } else if (name == "huber") {
    o.kind = RowLoss::kHuber;
  } else {
    require(spec, name == "binary_crossentropy", "there is no such loss");
    o.kind = flag(a, "from_logits") ? RowLoss::kBinaryLogits : RowLoss::kBinaryProbabilities;
  }
  return o;
}

}  // namespace tessera::device
