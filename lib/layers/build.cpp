#include "layers/build.h"

#include <map>

#include "layers/activations.h"
#include "layers/initializers.h"
#include "layers/layer.h"
#include "layers/loss.h"
#include "layers/metric.h"
#include "layers/optimizer.h"
#include "layers/update.h"

namespace tessera::layers {
namespace {

using Kind = graph::GraphOutput::Kind;

/// Metrics with their names in the logs.
struct Metrics {
  std::vector<Metric> metrics, weighted;
  std::vector<SourcePos> places;
  std::vector<std::string> names;
};

Metrics make_metrics(const config::CompileSpec& compile) {
  Metrics m;
  std::vector<std::string> plain, weighted;
  for (const auto& c : compile.metrics) {
    m.metrics.push_back(metric_registry().get(c.name, c.pos).make(c));
    m.places.push_back(c.pos);
    plain.push_back(m.metrics.back().name);
  }
  for (const auto& c : compile.weighted_metrics) {
    m.weighted.push_back(metric_registry().get(c.name, c.pos).make(c));
    m.places.push_back(c.pos);
    weighted.push_back(m.weighted.back().name);
  }
  m.names = log_names(plain, weighted);
  for (std::size_t i = 0; i < m.names.size(); ++i)
    if (m.names[i] == "loss")
      fail_at(m.places[i], ExitCode::kConfig, "a metric can't be named 'loss': the logs have the loss by that name");
  return m;
}

class ModelBuilder {
 public:
  ModelBuilder(const config::Spec& spec, const BuildOptions& options)
      : spec_(spec), options_(options), b_(model_.main, spec.seed, options.mode == Mode::kTrain) {}

  graph::Model build() {
    add_inputs();
    for (const auto& layer : spec_.model.layers) {
      const auto output = tensors_.emplace(layer.name, apply(layer)).first->second;
      model_.layer_outputs[layer.name] = output.id();
    }
    const auto& outputs = spec_.model.outputs;
    if (options_.mode == Mode::kPredict) {
      for (const auto& name : outputs) model_.outputs.push_back({Kind::kPrediction, name, tensors_.at(name).id()});
      model_.main.differentiate(-1);
    } else {
      add_training(outputs);
    }
    return std::move(model_);
  }

 private:
  void add_inputs() {
    for (const auto& input : spec_.model.inputs) {
      const auto d = input.dtype;
      if (d != DType::kF32 && d != DType::kI32 && d != DType::kI64 && d != DType::kU8 && d != DType::kBool)
        fail_at(
            input.pos, ExitCode::kConfig,
            "input '{}' has the dtype {}; supported are float32, int32, int64, uint8 and bool (data of other dtypes "
            "is cast when it is read)",
            input.name, to_string(d));
      b_.begin({"input", input.name, 0, false, input.pos});
      Shape shape{options_.rows};
      shape.insert(shape.end(), input.shape.begin(), input.shape.end());
      tensors_.emplace(input.name, b_.input(input.name, shape, d));
    }
  }

  Tensor apply(const config::LayerSpec& layer) {
    std::vector<Tensor> inputs;
    for (const auto& input : layer.inputs) inputs.push_back(tensors_.at(input));
    if (layer.type != "Shared") {
      applied_[layer.name] = {&layer, 1};
      return layer_registry().get(layer.type, layer.pos).apply(b_, layer, 0, inputs);
    }
    const config::Node* name = layer.arguments.find("layer");
    TESSERA_CHECK(name != nullptr, "Shared '{}' names no layer", layer.name);
    auto& shared = applied_.at(name->as_text("layer"));
    auto again = *shared.layer;
    again.call = layer.call;
    again.pos = layer.pos;
    return layer_registry().get(again.type, again.pos).apply(b_, again, shared.count++, inputs);
  }

  void add_training(const std::vector<std::string>& outputs) {
    if (!spec_.compile.present)
      fail_at(spec_.pos, ExitCode::kConfig, "training and evaluation need 'compile' with an optimizer and a loss");
    if (outputs.size() > 1)
      fail_at(spec_.model.pos, ExitCode::kConfig,
              "the model has {} outputs, but a loss of several outputs is not supported; keep one in 'outputs'",
              outputs.size());
    const auto loss = make_loss(spec_.compile.loss);
    const auto metrics = make_metrics(spec_.compile);
    const auto prediction = tensors_.at(outputs[0]);
    b_.begin({"loss", "loss", 0, false, loss.pos});
    if (prediction.rank() < 2 || prediction.dtype() != DType::kF32)
      b_.fail("the output of '{}' must be float32 with a dimension beside the batch, found {} {}", outputs[0],
              to_string(prediction.dtype()), to_string(prediction.shape()));
    const auto target = b_.input("y", target_shape(loss.target, prediction.shape()), target_dtype(loss.target));
    std::optional<Tensor> weights;
    if (options_.sample_weight)
      weights = b_.input("sample_weight", target_shape(Target::kLabels, prediction.shape()), DType::kF32);

    const auto total = add_loss(b_, loss, prediction, target, weights);
    model_.outputs.push_back({Kind::kLoss, "loss", total.id()});
    add_metrics(metrics, prediction, target, weights);
    model_.main.differentiate(options_.mode == Mode::kTrain ? total.id() : -1);
    if (options_.mode == Mode::kTrain)
      build_update(model_, make_optimizer(spec_.compile.optimizer), trained_weights(model_.main));
  }

  void add_metrics(const Metrics& m, Tensor prediction, Tensor target, std::optional<Tensor> weights) {
    const std::string mode = options_.mode == Mode::kTrain ? "train" : "evaluate";
    for (std::size_t i = 0; i < m.names.size(); ++i) {
      const bool weighted = i >= m.metrics.size();
      const auto& metric = weighted ? m.weighted[i - m.metrics.size()] : m.metrics[i];
      b_.begin({"metric", "metrics/" + m.names[i], 0, false, m.places[i]});
      const auto path = fmt::format("metrics/{}/{}", mode, m.names[i]);
      const auto node = add_metric(b_, metric, path, prediction, target, weighted ? weights : std::nullopt);
      model_.outputs.push_back({Kind::kMetric, path, node.id()});
    }
  }

  struct Applied {
    const config::LayerSpec* layer = nullptr;
    int count = 0;
  };

  const config::Spec& spec_;
  const BuildOptions& options_;
  graph::Model model_;
  Builder b_;
  std::map<std::string, Tensor> tensors_;  // by layer and input
  std::map<std::string, Applied> applied_;
};

/// Its type and what it must also be.
std::string type_of(const config::FieldDoc& field) {
  if (field.check.empty() || field.check.starts_with("only ")) return field.type;
  return field.check.starts_with("one of ") ? field.check : fmt::format("{} ({})", field.type, field.check);
}

void add_doc(const std::string& kind, const std::string& name, const std::vector<config::FieldDoc>& fields,
             std::vector<ClassDoc>& docs) {
  ClassDoc doc{kind, name, {}};
  for (const auto& f : fields) doc.fields.push_back({f.name, type_of(f), f.default_text});
  docs.push_back(std::move(doc));
}

template <typename Class>
void add_docs(const Registry<Class>& registry, std::vector<ClassDoc>& docs) {
  for (const auto& c : registry.classes()) add_doc(registry.kind(), c.name, c.fields, docs);
}

/// What stands in `layers` beside the layers; read by lib/config.
std::vector<ClassDoc> block_docs() {
  const FieldDoc layers{"layers", "list of layers and blocks", ""}, input{"inputs", "name", "the layer above"};
  return {{"block", "Repeat", {{"name", "text", "repeat"}, {"times", "int (positive)", ""}, layers, input}},
          {"block", "Sequential", {{"name", "text", "sequential"}, layers, input}},
          {"block",
           "Shared",
           {{"layer", "name of a layer", ""},
            {"name", "text", "the layer's with _1, _2, ..."},
            {"inputs", "name or list of names", "the layer above"},
            {"call", "{argument: value} or null", "null"}}}};
}

}  // namespace

graph::Model build(const config::Spec& spec, const BuildOptions& options) {
  return ModelBuilder(spec, options).build();
}

OptimizerInfo optimizer_info(const config::Spec& spec) {
  const auto optimizer = make_optimizer(spec.compile.optimizer);
  OptimizerInfo info;
  info.name = optimizer.name;
  info.learning_rate = optimizer.learning_rate;
  info.accumulation_steps = optimizer.accumulation_steps();
  info.use_ema = optimizer.config.use_ema;
  if (!info.use_ema) return info;
  const auto model = build(spec, {Mode::kTrain, 1, 1, false});
  for (const auto& weight : trained_weights(model.main))
    info.averages.emplace_back(weight.variable.path, slot_path(optimizer, weight.variable.path, "average"));
  return info;
}

std::vector<std::string> metric_names(const config::Spec& spec) { return make_metrics(spec.compile).names; }

std::vector<ClassDoc> schema() {
  auto docs = block_docs();
  add_docs(layer_registry(), docs);
  for (const auto& [name, fields] : activation_docs()) add_doc("activation", name, fields, docs);
  for (const auto& [name, fields] : initializer_docs()) add_doc("initialiser", name, fields, docs);
  add_docs(loss_registry(), docs);
  add_docs(metric_registry(), docs);
  add_docs(optimizer_registry(), docs);
  for (const auto& [name, fields] : schedule_docs()) add_doc("schedule", name, fields, docs);
  return docs;
}

}  // namespace tessera::layers
