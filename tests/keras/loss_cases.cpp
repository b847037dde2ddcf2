// Losses: one a row, and the value and gradient of every reduction, with and without weights.
#include "keras/one_rank.h"
#include "layers/loss.h"

namespace tessera::keras {
namespace {

using Kind = graph::GraphOutput::Kind;

class LossCase {
 public:
  LossCase(const nlohmann::json& c, const checkpoint::SafetensorsReader& file)
      : case_(c), file_(file), name_(c["name"]), class_(c["loss"]) {}

  std::optional<std::string> skip() const {
    if (layers::loss_registry().find(class_) == nullptr) return "loss " + class_;
    return std::nullopt;
  }

  void run(Comparison& c) const {
    rows(c);
    for (const auto& [reduction, value] : case_["value"].items()) total(c, reduction, false, value);
    for (const auto& [reduction, value] : case_["value_weighted"].items()) total(c, reduction, true, value);
  }

 private:
  layers::Loss loss(const std::string& reduction) const {
    auto config = case_["config"];
    config["reduction"] = reduction;
    return layers::make_loss(constructor(class_, config));
  }

  layers::Tensor prediction(graph::Graph& graph) const {
    return {graph, add_variable(graph, "prediction", file_.at(name_ + "/y_pred").shape, true)};
  }

  layers::Tensor target(layers::Builder& b, const layers::Loss& loss) const {
    return b.input("y", file_.at(name_ + "/y_true").shape, target_dtype(loss.target));
  }

  void rows(Comparison& c) const {
    graph::Model model;
    layers::Builder b(model.main, 0, false);
    const auto loss = this->loss("sum_over_batch_size");
    const auto p = prediction(model.main);
    model.outputs = {{Kind::kPrediction, "rows", loss.rows(b, p, target(b, loss)).id()}};
    model.main.differentiate(-1);
    OneRank rank({{"predict", &model}});
    rank.set_input("predict", "y", read(file_, name_ + "/y_true"));
    rank.set_state("prediction", read(file_, name_ + "/y_pred"));
    rank.run("predict", "", params());
    c.tensor("per_sample", rank.output("predict", "rows"), read(file_, name_ + "/per_sample"), {});
  }

  void total(Comparison& c, const std::string& reduction, bool weighted, double expected) const {
    const std::string what = reduction + (weighted ? " weighted" : "");
    graph::Model model;
    layers::Builder b(model.main, 0, true);
    b.begin({"loss", "loss", 0, false, {}});
    const auto loss = this->loss(reduction);
    const auto p = prediction(model.main);
    const auto y = target(b, loss);
    std::optional<layers::Tensor> weights;
    if (weighted) weights = b.input("sample_weight", file_.at(name_ + "/sample_weight").shape, DType::kF32);
    const auto value = add_loss(b, loss, p, y, weights);
    model.outputs = {{Kind::kLoss, "loss", value.id()}};
    model.main.differentiate(value.id());
    OneRank rank({{"train", &model}});
    rank.set_input("train", "y", read(file_, name_ + "/y_true"));
    if (weighted) rank.set_input("train", "sample_weight", read(file_, name_ + "/sample_weight"));
    rank.set_state("prediction", read(file_, name_ + "/y_pred"));
    rank.run("train", "", params());
    c.scalar(what, rank.loss(), expected, {});
    if (reduction == "sum_over_batch_size")
      c.tensor("gradient " + what, rank.gradient("prediction"),
               read(file_, name_ + (weighted ? "/grad_weighted" : "/grad")), {1e-4, 2e-5});
  }

  device::StepParams params() const {
    auto params = all_rows();
    params.real_rows = file_.at(name_ + "/y_pred").shape[0];
    return params;
  }

  const nlohmann::json& case_;
  const checkpoint::SafetensorsReader& file_;
  std::string name_, class_;
};

}  // namespace

void run_losses(Tally& tally) {
  if (!exists("losses.json")) return;
  const auto cases = read_json("losses.json");
  const checkpoint::SafetensorsReader file(folder() + "/losses.safetensors");
  for (const auto& c : cases) {
    const LossCase one(c, file);
    tally.run("losses/" + c["name"].get<std::string>(), one.skip(),
              [&](Comparison& comparison) { one.run(comparison); });
  }
}

}  // namespace tessera::keras
