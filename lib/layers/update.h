#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "layers/optimizer.h"

namespace tessera::layers {

/// A trained weight that the update changes.
struct TrainedWeight {
  graph::Variable variable;
  Shape shape;
};
std::vector<TrainedWeight> trained_weights(const graph::Graph& main);

/// Fills model.update and, if the optimizer accumulates gradients, model.accumulate. In the order of Keras: accumulate,
/// clip, decay, update, average. Reports "grad_norm_squared" in both.
void build_update(graph::Model& model, const Optimizer& optimizer, const std::vector<TrainedWeight>& weights);

/// Path of a weight's slot: "adam/dense_1/kernel/momentum".
std::string slot_path(const Optimizer& optimizer, const std::string& weight, const std::string& slot);

}  // namespace tessera::layers
