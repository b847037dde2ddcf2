// Optimizers: the variables after each step of given gradients, learning rates, slots, averages. The loss is the sum of
// variable * gradient, whose gradient is the given one exactly.
#include <algorithm>

#include "graph/ops/ops.h"
#include "keras/one_rank.h"
#include "layers/update.h"

namespace tessera::keras {
namespace {

using Kind = graph::GraphOutput::Kind;
constexpr Tolerance kStep{1e-5, 1e-6};

class OptimizerCase {
 public:
  explicit OptimizerCase(const std::string& name)
      : case_(read_json("optimizers/" + name + ".json")),
        file_(folder() + "/optimizers/" + name + ".safetensors"),
        class_(case_["optimizer"]) {}

  std::optional<std::string> skip() const {
    if (layers::optimizer_registry().find(class_) == nullptr) return "optimizer " + class_;
    const auto& config = case_["config"];
    if (config.contains("learning_rate") && config["learning_rate"].is_object()) {
      const auto schedule = config["learning_rate"].begin().key();
      const auto docs = layers::schedule_docs();
      if (std::none_of(docs.begin(), docs.end(), [&](const auto& d) { return d.first == schedule; }))
        return "schedule " + schedule;
    }
    return std::nullopt;
  }

  void run(Comparison& c) const {
    const auto optimizer = layers::make_optimizer(constructor(class_, case_["config"]));
    graph::Model model;
    const int loss = add_loss(model.main);
    model.outputs = {{Kind::kLoss, "loss", loss}};
    model.main.differentiate(loss);
    layers::build_update(model, optimizer, layers::trained_weights(model.main));

    OneRank rank({{"train", &model}});
    for (const std::string path : case_["variables"]) rank.set_state(path, read(file_, "variable/0/" + path));
    const auto accumulation = optimizer.accumulation_steps();
    for (int step = 1; step <= case_["steps"]; ++step) {
      for (const std::string path : case_["variables"])
        rank.set_state("gradient/" + path, read(file_, fmt::format("gradient/{}/{}", step, path)));
      auto params = all_rows();
      params.step = step;
      params.iteration = (step - 1) / accumulation;
      params.learning_rate = optimizer.learning_rate(step - 1);
      c.scalar(fmt::format("learning rate of step {}", step), params.learning_rate, case_["learning_rate"][step - 1],
               {2e-6, 1e-9});
      rank.run("train", step % accumulation == 0 ? "apply" : "accumulate", params);
      for (const std::string path : case_["variables"])
        c.tensor(fmt::format("{} after step {}", path, step), rank.state(path),
                 read(file_, fmt::format("variable/{}/{}", step, path)), kStep);
    }
    compare_slots(c, rank, optimizer);
  }

 private:
  int add_loss(graph::Graph& graph) const {
    std::vector<int> terms;
    for (const std::string path : case_["variables"]) {
      const auto& shape = file_.at("variable/0/" + path).shape;
      const int weight = add_variable(graph, path, shape, true);
      const int gradient = add_variable(graph, "gradient/" + path, shape, false);
      terms.push_back(graph.add_op(graph::kWeightedSum, path + "/loss", "loss", {weight, gradient},
                                   {{"weights", true}, {"denominator", std::string("one")}}));
    }
    return terms.size() == 1 ? terms[0] : graph.add_op(graph::kAdd, "loss", "loss", terms, {});
  }

  /// Keras writes "adam/dense_kernel_momentum" for "adam/dense/kernel/momentum".
  void compare_slots(Comparison& c, const OneRank& rank, const layers::Optimizer& optimizer) const {
    for (std::size_t i = 0; i < case_["slots"].size(); ++i) {
      const std::string slot = case_["slots"][i];
      for (const std::string path : case_["variables"]) {
        auto flat = path;
        std::replace(flat.begin(), flat.end(), '/', '_');
        const auto prefix = optimizer.name + "/" + flat + "_";
        if (!slot.starts_with(prefix)) continue;
        const auto own = layers::slot_path(optimizer, path, slot.substr(prefix.size()));
        c.fact(fmt::format("there is no slot {}", own), rank.has_state(own));
        if (rank.has_state(own)) c.tensor(own, rank.state(own), read(file_, fmt::format("slot/{}", i)), kStep);
      }
    }
    if (!optimizer.config.use_ema) return;
    for (const std::string path : case_["variables"])
      c.tensor("average of " + path, rank.state(layers::slot_path(optimizer, path, "average")),
               read(file_, "finalized/" + path), kStep);
  }

  nlohmann::json case_;
  checkpoint::SafetensorsReader file_;
  std::string class_;
};

}  // namespace

void run_optimizers(Tally& tally) {
  for (const auto& name : list("optimizers")) {
    const OptimizerCase one(name);
    tally.run("optimizers/" + name, one.skip(), [&](Comparison& c) { one.run(c); });
  }
}

}  // namespace tessera::keras
