// Metrics: the running result after each batch, with and without weights, and after a reset. Smaller batches are
// padded, so the row mask is tried too.
#include <algorithm>

#include "keras/one_rank.h"
#include "layers/metric.h"

namespace tessera::keras {
namespace {

using Kind = graph::GraphOutput::Kind;

class MetricCase {
 public:
  MetricCase(const nlohmann::json& c, const checkpoint::SafetensorsReader& file)
      : case_(c), file_(file), name_(c["name"]), class_(c["metric"]) {}

  std::optional<std::string> skip() const {
    const auto* known = layers::metric_registry().find(class_);
    if (known == nullptr || known->name != class_) return "metric " + class_;
    return std::nullopt;
  }

  void run(Comparison& c) const {
    for (const bool weighted : {false, true}) run(c, weighted);
  }

 private:
  Shape padded(const std::string& key) const {
    auto shape = file_.at(batch(0, key)).shape;
    for (int i = 0; i < count(); ++i) shape[0] = std::max(shape[0], file_.at(batch(i, key)).shape[0]);
    return shape;
  }
  std::string batch(int i, const std::string& key) const { return fmt::format("{}/{}/{}", name_, i, key); }
  int count() const { return case_["batches"]; }

  void run(Comparison& c, bool weighted) const {
    graph::Model model;
    layers::Builder b(model.main, 0, false);
    b.begin({"metric", "metric", 0, false, {}});
    const auto metric = layers::metric_registry().get(class_, {}).make(constructor(class_, case_["config"]));
    const auto p = b.input("prediction", padded("y_pred"), DType::kF32);
    const auto y =
        b.input("y", padded("y_true"), is_float(file_.at(batch(0, "y_true")).dtype) ? DType::kF32 : DType::kI32);
    std::optional<layers::Tensor> weights;
    if (weighted) weights = b.input("sample_weight", padded("sample_weight"), DType::kF32);
    const auto node = add_metric(b, metric, "state", p, y, weights);
    model.outputs = {{Kind::kMetric, "state", node.id()}};
    model.main.differentiate(-1);
    OneRank rank({{"evaluate", &model}});
    const auto& results = case_[weighted ? "result_weighted" : "result"];
    for (int i = 0; i < count(); ++i) {
      feed(rank, i, weighted);
      const auto [total, number] = rank.metric("state");
      c.scalar(fmt::format("result{} after batch {}", weighted ? "_weighted" : "", i), total / number, results[i], {});
    }
    if (weighted) return;
    rank.reset("state");
    feed(rank, count() - 1, false);
    const auto [total, number] = rank.metric("state");
    c.scalar("result after reset", total / number, case_["result_of_last_batch_after_reset"], {});
  }

  void feed(OneRank& rank, int i, bool weighted) const {
    rank.set_input("evaluate", "prediction", read(file_, batch(i, "y_pred")));
    rank.set_input("evaluate", "y", read(file_, batch(i, "y_true")));
    if (weighted) rank.set_input("evaluate", "sample_weight", read(file_, batch(i, "sample_weight")));
    auto params = all_rows();
    params.real_rows = file_.at(batch(i, "y_pred")).shape[0];
    rank.run("evaluate", "", params);
  }

  const nlohmann::json& case_;
  const checkpoint::SafetensorsReader& file_;
  std::string name_, class_;
};

}  // namespace

void run_metrics(Tally& tally) {
  if (!exists("metrics.json")) return;
  const auto cases = read_json("metrics.json");
  const checkpoint::SafetensorsReader file(folder() + "/metrics.safetensors");
  for (const auto& c : cases) {
    const MetricCase one(c, file);
    tally.run("metrics/" + c["name"].get<std::string>(), one.skip(),
              [&](Comparison& comparison) { one.run(comparison); });
  }
}

}  // namespace tessera::keras
