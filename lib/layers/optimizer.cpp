#include "layers/optimizer.h"

#include <re2/re2.h>

namespace tessera::layers {

void add_all(OptimizerRegistry& registry);  // written by CMake from the files in optimizer/

const std::vector<config::Field<OptimizerConfig>>& common_optimizer_fields() {
  using C = OptimizerConfig;
  using config::field;
  static const std::vector<config::Field<C>> kFields{
      documented(field("learning_rate", &C::learning_rate, "0.001"), kLearningRateType),
      field("weight_decay", &C::weight_decay, std::nullopt, config::non_negative),
      field("clipnorm", &C::clipnorm, std::nullopt, config::positive),
      field("clipvalue", &C::clipvalue, std::nullopt, config::positive),
      field("global_clipnorm", &C::global_clipnorm, std::nullopt, config::positive),
      field("use_ema", &C::use_ema, false),
      field("ema_momentum", &C::ema_momentum, 0.99, config::in_0_1),
      field("ema_overwrite_frequency", &C::ema_overwrite_frequency, std::nullopt, config::positive),
      field("gradient_accumulation_steps", &C::gradient_accumulation_steps, std::nullopt, config::at_least(2)),
      field("name", &C::name, std::nullopt),
      documented(field("exclude_from_weight_decay", &C::exclude_from_weight_decay, "null"),
                 "{var_names: list of regular expressions} or null"),
      unsupported<C>("loss_scale_factor"),
  };
  return kFields;
}

const OptimizerRegistry& optimizer_registry() {
  static const OptimizerRegistry kRegistry = [] {
    OptimizerRegistry r;
    add_all(r);
    return r;
  }();
  return kRegistry;
}

Optimizer make_optimizer(const config::Constructor& optimizer) {
  return optimizer_registry().get(optimizer.name, optimizer.pos).make(optimizer);
}

Optimizer OptimizerRegistry::finish(const config::Constructor& c, const OptimizerConfig& config,
                                    const std::string& default_name, std::function<int(WeightUpdate&)> update) {
  const int clips = config.clipnorm.has_value() + config.clipvalue.has_value() + config.global_clipnorm.has_value();
  if (clips > 1)
    fail_at(c.pos, ExitCode::kConfig, "{}: only one of clipnorm, clipvalue and global_clipnorm can be given", c.name);
  if (config.ema_overwrite_frequency && !config.use_ema)
    fail_at(c.pos, ExitCode::kConfig, "{}: ema_overwrite_frequency needs use_ema: true", c.name);

  Optimizer result{
      config.name.value_or(default_name), config, make_schedule(config.learning_rate), {}, std::move(update)};
  const auto& exclude = config.exclude_from_weight_decay;
  if (exclude.is_null()) return result;
  struct Names {
    std::vector<std::string> var_names;
  };
  const config::Fields<Names> fields("exclude_from_weight_decay", {config::field("var_names", &Names::var_names)});
  result.not_decayed = fields.read(exclude, exclude.pos).var_names;
  for (const auto& pattern : result.not_decayed)
    if (const RE2 expression(pattern, RE2::Quiet); !expression.ok())
      fail_at(exclude.pos, ExitCode::kConfig, "exclude_from_weight_decay: '{}' is no regular expression: {}", pattern,
              expression.error());
  return result;
}

double Optimizer::decay_of(const std::string& path) const {
  const auto own_name = path.substr(path.rfind('/') + 1);
  for (const auto& pattern : not_decayed)
    if (RE2::PartialMatch(own_name, pattern)) return 0;
  return config.weight_decay.value_or(0);
}

}  // namespace tessera::layers
