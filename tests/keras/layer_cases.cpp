// Layers: output, and gradients of sum(output * cotangent) by inputs and variables.
#include "graph/ops/ops.h"
#include "keras/one_rank.h"
#include "layers/layer.h"

namespace tessera::keras {
namespace {

using layers::Builder;
using Kind = graph::GraphOutput::Kind;

class LayerCase {
 public:
  explicit LayerCase(const std::string& name)
      : case_(read_json("layers/" + name + ".json")), file_(folder() + "/layers/" + name + ".safetensors") {}

  std::optional<std::string> skip() const {
    const std::string layer = case_["layer"];
    if (layers::layer_registry().find(layer) == nullptr) return "layer " + layer;
    return std::nullopt;
  }

  void run(Comparison& c) const {
    graph::Model forward, train;
    forward.outputs = {{Kind::kPrediction, "output", apply(forward.main).id()}};
    forward.main.differentiate(-1);
    std::vector<std::pair<std::string, const graph::Model*>> models{{"predict", &forward}};
    const int loss = add_loss(train.main);
    train.outputs = {{Kind::kLoss, "loss", loss}};
    train.main.differentiate(loss);
    const bool differentiable = train.main.node(loss).needs_cotangent;
    if (differentiable) models.insert(models.begin(), {"train", &train});

    OneRank rank(models);
    for (const auto& [name, tensor] : file_.tensors()) {
      if (name.starts_with("input/") && rank.has_state(name)) rank.set_state(name, read(file_, name));
      if (name.starts_with("input/")) rank.set_input("predict", name, read(file_, name));
      if (name.starts_with("input/") && differentiable) rank.set_input("train", name, read(file_, name));
      if (name.starts_with("variable/")) rank.set_state(name.substr(9), read(file_, name));
    }
    rank.run("predict", "", all_rows());
    c.tensor("output", rank.output("predict", "output"), read(file_, "output"), {});
    if (!differentiable) return;
    rank.set_state("cotangent", read(file_, "cotangent"));
    rank.run("train", "", all_rows());
    for (const auto& [name, tensor] : file_.tensors()) {
      if (name.starts_with("grad/variable/"))
        c.tensor(name, rank.gradient(name.substr(14)), read(file_, name), {1e-4, 2e-5});
      if (name.starts_with("grad/input/"))
        c.tensor(name, rank.gradient(name.substr(5)), read(file_, name), {1e-4, 2e-5});
    }
  }

 private:
  /// Float inputs are variables, so that they have gradients.
  layers::Tensor apply(graph::Graph& graph) const {
    Builder b(graph, 0, case_["training"]);
    std::vector<layers::Tensor> inputs;
    for (const std::string name : case_["inputs"]) {
      const auto path = "input/" + name;
      const auto& stored = file_.at(path);
      if (is_float(stored.dtype))
        inputs.emplace_back(graph, add_variable(graph, path, stored.shape, true));
      else
        inputs.push_back(b.input(path, stored.shape, DType::kI32));
    }
    config::LayerSpec spec;
    spec.type = case_["layer"];
    spec.name = case_["name"];
    spec.arguments = constructor(spec.type, case_["config"]).arguments;
    spec.call = constructor("call", case_["call"]).arguments;
    return layers::layer_registry().get(spec.type, {}).apply(b, spec, 0, inputs);
  }

  int add_loss(graph::Graph& graph) const {
    const auto y = apply(graph);
    const int cotangent = add_variable(graph, "cotangent", y.shape(), false);
    return graph.add_op(graph::kWeightedSum, "loss", "loss", {y.id(), cotangent},
                        {{"weights", true}, {"denominator", std::string("one")}});
  }

  nlohmann::json case_;
  checkpoint::SafetensorsReader file_;
};

}  // namespace

void run_layers(Tally& tally) {
  for (const auto& name : list("layers")) {
    const LayerCase one(name);
    tally.run("layers/" + name, one.skip(), [&](Comparison& c) { one.run(c); });
  }
}

}  // namespace tessera::keras
