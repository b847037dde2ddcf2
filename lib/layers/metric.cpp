#include "layers/metric.h"

#include <map>

#include "graph/ops/ops.h"

namespace tessera::layers {

void add_all(MetricRegistry& registry);  // written by CMake from the files in metric/

const MetricRegistry& metric_registry() {
  static const MetricRegistry kRegistry = [] {
    MetricRegistry r;
    add_all(r);
    return r;
  }();
  return kRegistry;
}

/// A bare name appears as it is written, as in Keras.
std::string MetricRegistry::log_name(const config::Constructor& c, const std::optional<std::string>& name,
                                     const std::string& default_name) {
  return c.arguments.is_null() ? c.name : name.value_or(default_name);
}

void MetricRegistry::add_loss(const std::string& name, const std::string& default_name) {
  const auto& loss = *loss_registry().find(name);
  std::vector<config::FieldDoc> docs;
  for (const auto& doc : loss.fields)
    if (doc.name != "reduction" && doc.name != "ignore_class") docs.push_back(doc);
  insert({name, loss.aliases, docs, [docs, name, default_name, make = loss.make](const config::Constructor& c) {
            std::vector<std::string> known;
            for (const auto& doc : docs) known.push_back(doc.name);
            if (!c.arguments.is_null()) config::require_keys(c.arguments, known, "metric " + name);
            const config::Node* given = c.arguments.find("name");
            std::optional<std::string> own_name;
            if (given != nullptr && !given->is_null()) own_name = given->as_text("name");
            const auto mean = make(c);
            return Metric{log_name(c, own_name, default_name), [mean](Builder& b, Tensor p, Tensor t) {
                            const bool labels = mean.target == Target::kLabels;
                            return mean.rows(b, p, labels ? as_labels(b, p, t) : as_dense_target(b, p, t));
                          }};
          }});
}

Tensor as_dense_target(Builder& b, Tensor prediction, Tensor target) {
  if (elements(target.shape()) != elements(prediction.shape()))
    b.fail("it compares targets of the prediction's shape {}, but the loss reads labels {}",
           to_string(prediction.shape()), to_string(target.shape()));
  return b.reshape(b.cast(target, DType::kF32), prediction.shape());
}

Tensor as_labels(Builder& b, Tensor prediction, Tensor target) {
  const auto shape = target_shape(Target::kLabels, prediction.shape());
  if (elements(target.shape()) != elements(shape))
    b.fail("it compares labels {}, but the loss reads targets {}", to_string(shape), to_string(target.shape()));
  return b.reshape(b.cast(target, DType::kI32), shape);
}

std::vector<std::string> log_names(const std::vector<std::string>& metrics, const std::vector<std::string>& weighted) {
  std::map<std::string, int> seen;
  std::vector<std::string> names;
  const auto number = [&](const std::string& name) {
    const int k = seen[name]++;
    names.push_back(k == 0 ? name : fmt::format("{}_{}", name, k));
  };
  for (const auto& name : metrics) number(name);
  for (const auto& name : weighted) number(seen.contains(name) ? "weighted_" + name : name);
  return names;
}

Tensor add_metric(Builder& b, const Metric& metric, const std::string& path, Tensor prediction, Tensor target,
                  std::optional<Tensor> weights) {
  std::vector<Tensor> operands{metric.values(b, prediction, target)};
  if (weights) operands.push_back(*weights);
  graph::Variable state;
  state.path = path;
  state.role = graph::VariableRole::kMetric;
  state.trainable = false;
  state.pos = b.layer().pos;
  b.graph().add_variable(std::move(state), {2}, DType::kF64);
  return b.op(graph::kMetricAccumulate, "accumulate", operands);
}

}  // namespace tessera::layers
