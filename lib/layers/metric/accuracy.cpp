// Accuracies. `accuracy` is binary, sparse or categorical by the shapes, as in Keras.
#include "graph/ops/ops.h"
#include "layers/metric.h"

namespace tessera::layers {
namespace {

struct BinaryConfig : MetricConfig {
  double threshold = 0.5;
};

Tensor match(Builder& b, const std::string& kind, double threshold, Tensor prediction, Tensor target) {
  return b.op(graph::kMatchRows, "match", {prediction, target}, {{"kind", kind}, {"threshold", threshold}});
}

Tensor binary(Builder& b, const BinaryConfig& c, Tensor prediction, Tensor target) {
  return match(b, "binary", c.threshold, prediction, as_dense_target(b, prediction, target));
}

Tensor categorical(Builder& b, const MetricConfig&, Tensor prediction, Tensor target) {
  return match(b, "categorical", 0.5, prediction, as_dense_target(b, prediction, target));
}

Tensor sparse(Builder& b, const MetricConfig&, Tensor prediction, Tensor target) {
  return match(b, "sparse", 0.5, prediction, as_labels(b, prediction, target));
}

Tensor accuracy(Builder& b, const MetricConfig& c, Tensor prediction, Tensor target) {
  if (prediction.shape().back() == 1) return binary(b, BinaryConfig{}, prediction, target);
  if (target.rank() < prediction.rank() || target.shape().back() == 1) return sparse(b, c, prediction, target);
  return categorical(b, c, prediction, target);
}

}  // namespace

void add_accuracy(MetricRegistry& r) {
  r.add("accuracy", {"acc", "ACC", "Accuracy"}, "accuracy", accuracy, {});
  r.add("BinaryAccuracy", {"binary_accuracy"}, "binary_accuracy", binary,
        {config::field("threshold", &BinaryConfig::threshold, 0.5)});
  r.add("CategoricalAccuracy", {"categorical_accuracy"}, "categorical_accuracy", categorical, {});
  r.add("SparseCategoricalAccuracy", {"sparse_categorical_accuracy"}, "sparse_categorical_accuracy", sparse, {});
}

}  // namespace tessera::layers
