#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "layers/registry.h"
#include "layers/schedules.h"

namespace tessera::layers {

inline constexpr auto kLearningRateType = "number or {Schedule: {arguments}}";

/// Arguments that all optimizers take.
struct OptimizerConfig {
  config::Node learning_rate;
  std::optional<double> weight_decay, clipnorm, clipvalue, global_clipnorm;
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<std::int64_t> ema_overwrite_frequency, gradient_accumulation_steps;
  std::optional<std::string> name;
  config::Node exclude_from_weight_decay;
};
const std::vector<config::Field<OptimizerConfig>>& common_optimizer_fields();

/// The update of one weight, as an optimizer's code sees it.
class WeightUpdate {
 public:
  WeightUpdate(graph::Graph& graph, std::string optimizer, std::string path, int weight, int gradient, double decay)
      : graph_(graph),
        optimizer_(std::move(optimizer)),
        path_(std::move(path)),
        weight_(weight),
        gradient_(gradient),
        decay_(decay) {}

  /// State of the optimizer with the weight's shape, f32, zeros at first. Returns the node.
  int slot(const std::string& name);
  /// The new weight by an op w, g, slots... -> w; the attribute weight_decay is added.
  int apply(const graph::Op& op, const std::vector<int>& slots, Attributes attributes);

 private:
  graph::Graph& graph_;
  std::string optimizer_, path_;
  int weight_, gradient_;
  double decay_;
};

/// An optimizer with its arguments.
struct Optimizer {
  std::string name;  // "adam"; slots begin with it
  OptimizerConfig config;
  Schedule learning_rate;
  std::vector<std::string> not_decayed;  // regular expressions, searched in the weight's own name
  std::function<int(WeightUpdate&)> update;

  std::int64_t accumulation_steps() const { return config.gradient_accumulation_steps.value_or(1); }
  double decay_of(const std::string& path) const;
};

struct OptimizerClass {
  std::string name;
  std::vector<std::string> aliases;
  std::vector<config::FieldDoc> fields;
  std::function<Optimizer(const config::Constructor&)> make;
};

class OptimizerRegistry : public Registry<OptimizerClass> {
 public:
  OptimizerRegistry() : Registry("optimizer") {}

  template <typename Config>
  void add(const std::string& name, std::vector<std::string> aliases, const std::string& default_name,
           int (*update)(WeightUpdate&, const Config&), std::vector<config::Field<Config>> own) {
    static_assert(std::is_base_of_v<OptimizerConfig, Config>);
    const config::Fields<Config> fields(name, with_base(common_optimizer_fields(), std::move(own)));
    insert({name, std::move(aliases), fields.docs(), [fields, default_name, update](const config::Constructor& c) {
              const auto config = fields.read(c.arguments, c.pos);
              return finish(c, config, default_name, [update, config](WeightUpdate& w) { return update(w, config); });
            }});
  }

 private:
  static Optimizer finish(const config::Constructor& c, const OptimizerConfig& config, const std::string& default_name,
                          std::function<int(WeightUpdate&)> update);
};

const OptimizerRegistry& optimizer_registry();

/// Throws Error (config) with the place for an unknown class or argument and for arguments that exclude each other.
Optimizer make_optimizer(const config::Constructor& optimizer);

}  // namespace tessera::layers
