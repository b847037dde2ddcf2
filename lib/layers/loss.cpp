#include "layers/loss.h"

#include "graph/ops/ops.h"

namespace tessera::layers {

void add_all(LossRegistry& registry);  // written by CMake from the files in loss/

const std::vector<config::Field<LossConfig>>& common_loss_fields() {
  static const std::vector<config::Field<LossConfig>> kFields{
      config::field("reduction", &LossConfig::reduction, "sum_over_batch_size",
                    config::one_of({"sum_over_batch_size", "mean", "sum", "mean_with_sample_weight"})),
      config::field("name", &LossConfig::name, std::nullopt),
      unsupported<LossConfig>("dtype", "float32"),
  };
  return kFields;
}

Reduction LossRegistry::reduction(const LossConfig& config) {
  if (config.reduction == "sum") return Reduction::kSum;
  return config.reduction == "mean_with_sample_weight" ? Reduction::kMeanWithSampleWeight
                                                       : Reduction::kSumOverBatchSize;
}

const LossRegistry& loss_registry() {
  static const LossRegistry kRegistry = [] {
    LossRegistry r;
    add_all(r);
    return r;
  }();
  return kRegistry;
}

Loss make_loss(const config::Constructor& loss) { return loss_registry().get(loss.name, loss.pos).make(loss); }

Shape target_shape(Target target, const Shape& prediction) {
  auto shape = prediction;
  if (target == Target::kLabels) shape.pop_back();
  return shape;
}

DType target_dtype(Target target) { return target == Target::kLabels ? DType::kI32 : DType::kF32; }

// Keras never divides by the weights but for mean_with_sample_weight; ignored positions don't count
// (keras/src/losses/loss.py, reduce_weighted_values and apply_mask).
Tensor add_loss(Builder& b, const Loss& loss, Tensor prediction, Tensor target, std::optional<Tensor> weights) {
  std::vector<Tensor> operands{loss.rows(b, prediction, target)};
  if (weights) operands.push_back(*weights);
  std::string denominator = loss.reduction == Reduction::kSum ? "one" : "rows";
  if (loss.reduction == Reduction::kMeanWithSampleWeight && weights) {
    denominator = "input";
    std::vector<Tensor> counted{*weights};
    Attributes attributes;
    if (loss.ignore_class) {
      counted.push_back(target);
      attributes.set("ignore_class", *loss.ignore_class);
    }
    operands.push_back(b.op(graph::kSumWeights, "sum_weights", counted, attributes, true));
  } else if (loss.reduction != Reduction::kSum && loss.ignore_class) {
    denominator = "input";
    operands.push_back(b.op(graph::kCountValid, "count_valid", {target}, {{"ignore_class", *loss.ignore_class}}, true));
  }
  return b.op(graph::kWeightedSum, "total", operands, {{"weights", weights.has_value()}, {"denominator", denominator}});
}

}  // namespace tessera::layers
