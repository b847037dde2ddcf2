#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/spec.h"
#include "graph/graph.h"

namespace tessera::layers {

enum class Mode : std::uint8_t { kTrain, kEvaluate, kPredict };

struct BuildOptions {
  Mode mode = Mode::kTrain;
  std::int64_t rows = 0;           // rows of one micro-batch, padded, global
  std::int64_t micro_batches = 1;  // of the training step
  bool sample_weight = false;      // whether the data has an array `sample_weight`
};

/// The global graphs of one step: layers, loss, metrics and, for kTrain, the optimizer's update. Throws Error (config)
/// with the layer's place for an unknown class, argument, shape that doesn't fit or a name used twice. Targets are
/// inputs too: `y`, i32 (rows, ...) for sparse labels, else f32 of the prediction's shape; `sample_weight`, f32 of the
/// loss's shape (the prediction's without its last dimension).
/// Loss: a kLoss output, the sum over real rows divided by the true global count. Metrics: kMetric outputs, states of
/// role kMetric, and "loss" is not among them. Predictions: kPrediction outputs named by layer, of kPredict alone. The
/// update also reports "grad_norm_squared", an f64 scalar, of the gradients before clipping (if anything is trained).
graph::Model build(const config::Spec& spec, const BuildOptions& options);

/// What the fit loop must know of the optimizer.
struct OptimizerInfo {
  std::string name;                                        // "adam"
  std::function<double(std::int64_t step)> learning_rate;  // of the update after `step` calls
  std::int64_t accumulation_steps = 1;
  bool use_ema = false;
  /// (path of a weight, path of its average): copied into the weight when fit ends.
  std::vector<std::pair<std::string, std::string>> averages;
};
OptimizerInfo optimizer_info(const config::Spec& spec);

/// Names of the metrics as in Keras's logs, in the order of the kMetric outputs.
std::vector<std::string> metric_names(const config::Spec& spec);

/// One argument of a class, for `trainer schema` and docs/layers.md.
struct FieldDoc {
  std::string name, type, fallback;
};
struct ClassDoc {
  std::string kind, name;  // "layer", "Dense"
  std::vector<FieldDoc> fields;
};
std::vector<ClassDoc> schema();

}  // namespace tessera::layers
