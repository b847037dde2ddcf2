#pragma once

#include <string>

#include <fmt/format.h>

#include "layers/build.h"

namespace tessera::layers {

/// A config of the parts that a test says; the rest is a Dense model with mse.
struct SpecText {
  std::string inputs = "x: {shape: [8]}";
  std::string layers = "- Dense: {name: dense_1, units: 12, activation: relu}\n    - Dense: {name: dense_2, units: 3}";
  std::string outputs = {};
  std::string optimizer = "sgd";
  std::string loss = "mse";
  std::string metrics = "[]", weighted_metrics = "[]";

  config::Spec spec() const {
    const auto text = fmt::format(
        "version: 1\nname: test\nseed: 7\nmodel:\n  inputs: {{{}}}\n  layers:\n    {}\n{}"
        "compile: {{optimizer: {}, loss: {}, metrics: {}, weighted_metrics: {}}}\n"
        "data: {{train: {{random: {{samples: 12}}}}}}\n",
        inputs, layers, outputs.empty() ? "" : "  outputs: " + outputs + "\n", optimizer, loss, metrics,
        weighted_metrics);
    return config::parse_spec(text, "test.yaml", {});
  }
  graph::Model build(Mode mode = Mode::kTrain, bool sample_weight = false) const {
    return layers::build(spec(), {mode, 6, 1, sample_weight});
  }
};

inline const graph::Node& node_of(const graph::Graph& graph, const std::string& name) {
  const int id = graph.find(name);
  if (id < 0) fail(ExitCode::kInternal, "no node '{}'", name);
  return graph.node(id);
}

}  // namespace tessera::layers
