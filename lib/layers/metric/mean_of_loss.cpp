// Means of losses, by the loss's class and aliases.
#include "layers/metric.h"

namespace tessera::layers {

void add_mean_of_loss(MetricRegistry& r) {
  r.add_loss("MeanSquaredError", "mean_squared_error");
  r.add_loss("MeanAbsoluteError", "mean_absolute_error");
  r.add_loss("BinaryCrossentropy", "binary_crossentropy");
  r.add_loss("CategoricalCrossentropy", "categorical_crossentropy");
  r.add_loss("SparseCategoricalCrossentropy", "sparse_categorical_crossentropy");
}

}  // namespace tessera::layers
