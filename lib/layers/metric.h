#pragma once

#include <functional>
#include <optional>

#include "layers/builder.h"
#include "layers/loss.h"
#include "layers/registry.h"

namespace tessera::layers {

/// A metric with its arguments: the mean of values (rows...) over the real rows.
struct Metric {
  std::string name;  // in the logs
  std::function<Tensor(Builder&, Tensor prediction, Tensor target)> values;
};

/// Arguments that all metrics take.
struct MetricConfig {
  std::optional<std::string> name;
};

struct MetricClass {
  std::string name;
  std::vector<std::string> aliases;
  std::vector<config::FieldDoc> fields;
  std::function<Metric(const config::Constructor&)> make;
};

class MetricRegistry : public Registry<MetricClass> {
 public:
  MetricRegistry() : Registry("metric") {}

  /// `default_name`: in the logs, for a class that is written with arguments.
  template <typename Config>
  void add(const std::string& name, std::vector<std::string> aliases, const std::string& default_name,
           Tensor (*values)(Builder&, const Config&, Tensor prediction, Tensor target),
           std::vector<config::Field<Config>> own) {
    static_assert(std::is_base_of_v<MetricConfig, Config>);
    own.push_back(config::field("name", &Config::name, std::nullopt));
    own.push_back(unsupported<Config>("dtype", "float32"));
    const config::Fields<Config> fields(name, std::move(own));
    insert({name, std::move(aliases), fields.docs(), [fields, default_name, values](const config::Constructor& c) {
              const auto config = fields.read(c.arguments, c.pos);
              return Metric{log_name(c, config.name, default_name),
                            [values, config](Builder& b, Tensor p, Tensor t) { return values(b, config, p, t); }};
            }});
  }

  /// The mean of a loss as a metric: the loss's arguments without `reduction`.
  void add_loss(const std::string& name, const std::string& default_name);

 private:
  static std::string log_name(const config::Constructor& c, const std::optional<std::string>& name,
                              const std::string& default_name);
};

const MetricRegistry& metric_registry();

/// The target as a metric wants it. Error (config) at the metric's place where the loss's target can't be that.
Tensor as_dense_target(Builder& b, Tensor prediction, Tensor target);  // f32 of the prediction's shape
Tensor as_labels(Builder& b, Tensor prediction, Tensor target);        // i32 of the prediction's shape without the last

/// Names in the logs: a second metric of one name becomes name_1, a weighted one weighted_name (Keras CompileMetrics).
std::vector<std::string> log_names(const std::vector<std::string>& metrics, const std::vector<std::string>& weighted);

/// Adds the state variable `path` and the op whose result is its memory; returns the latter.
Tensor add_metric(Builder& b, const Metric& metric, const std::string& path, Tensor prediction, Tensor target,
                  std::optional<Tensor> weights);

}  // namespace tessera::layers
