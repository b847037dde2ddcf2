#include "layers/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "core/text.h"
#include "layers/registry.h"

namespace tessera::layers {
namespace {

using config::field;

struct ExponentialDecay {
  double initial_learning_rate = 0, decay_steps = 1, decay_rate = 1;
  bool staircase = false;
  std::optional<std::string> name;

  /// initial * rate^(step / decay_steps)
  double operator()(std::int64_t step) const {
    double power = static_cast<double>(step) / decay_steps;
    if (staircase) power = std::floor(power);
    return initial_learning_rate * std::pow(decay_rate, power);
  }
};

struct CosineDecay {
  double initial_learning_rate = 0, decay_steps = 1, alpha = 0;
  std::optional<double> warmup_target;
  double warmup_steps = 0;
  std::optional<std::string> name;

  /// Half a cosine from `peak` down to alpha * peak.
  double decayed(double step, double peak) const {
    const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::min(step, decay_steps) / decay_steps));
    return peak * ((1 - alpha) * cosine + alpha);
  }

  /// Linear from initial to target during the warm-up; the decay begins after it (Loshchilov, Hutter 2016).
  double operator()(std::int64_t step) const {
    const auto at = static_cast<double>(step);
    if (!warmup_target) return decayed(at, initial_learning_rate);
    if (at < warmup_steps) return initial_learning_rate + (*warmup_target - initial_learning_rate) * at / warmup_steps;
    return decayed(at - warmup_steps, *warmup_target);
  }
};

const config::Fields<ExponentialDecay>& exponential_decay() {
  using C = ExponentialDecay;
  static const config::Fields<C> kFields(
      "ExponentialDecay",
      {field("initial_learning_rate", &C::initial_learning_rate, config::non_negative),
       field("decay_steps", &C::decay_steps, config::positive), field("decay_rate", &C::decay_rate, config::positive),
       field("staircase", &C::staircase, false), field("name", &C::name, std::nullopt)});
  return kFields;
}

const config::Fields<CosineDecay>& cosine_decay() {
  using C = CosineDecay;
  static const config::Fields<C> kFields(
      "CosineDecay",
      {field("initial_learning_rate", &C::initial_learning_rate, config::non_negative),
       field("decay_steps", &C::decay_steps, config::positive), field("alpha", &C::alpha, 0.0, config::non_negative),
       field("warmup_target", &C::warmup_target, std::nullopt),
       field("warmup_steps", &C::warmup_steps, 0.0, config::non_negative), field("name", &C::name, std::nullopt)});
  return kFields;
}

}  // namespace

std::vector<std::pair<std::string, std::vector<config::FieldDoc>>> schedule_docs() {
  return {{"ExponentialDecay", exponential_decay().docs()}, {"CosineDecay", cosine_decay().docs()}};
}

Schedule make_schedule(const config::Node& learning_rate) {
  if (!learning_rate.is_map()) {
    const double value = learning_rate.as_number("learning_rate");
    if (!(value >= 0))
      fail_at(learning_rate.pos, ExitCode::kConfig, "learning_rate must be at least 0, found {}", learning_rate.text);
    return [value](std::int64_t) { return value; };
  }
  const auto c = config::as_constructor(learning_rate, "learning_rate");
  if (c.name == "ExponentialDecay") return exponential_decay().read(c.arguments, c.pos);
  if (c.name == "CosineDecay") return cosine_decay().read(c.arguments, c.pos);
  const std::vector<std::string> names{"ExponentialDecay", "CosineDecay"};
  fail_at(c.pos, ExitCode::kConfig, "there is no learning rate schedule '{}'{}", c.name,
          known_names(c.name, names, names));
}

}  // namespace tessera::layers
