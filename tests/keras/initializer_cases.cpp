// Schedules at their steps, and the distributions of initialisers.
#include <algorithm>

#include "keras/golden.h"
#include "layers/initializers.h"
#include "layers/schedules.h"
#include "runtime/initial_values.h"

namespace tessera::keras {
namespace {

void compare(Comparison& c, const graph::Initializer& found, const nlohmann::json& expected) {
  using Distribution = graph::Initializer::Kind;
  const std::string kind = expected["kind"];
  if (kind == "uniform") {
    c.fact("it is not uniform", found.kind == Distribution::kUniform);
    c.scalar("low", found.low, expected["low"], {1e-9, 1e-12});
    c.scalar("high", found.high, expected["high"], {1e-9, 1e-12});
  } else if (kind == "fixed") {
    const auto& first = expected["values"][0];
    c.scalar("value", found.value, first.is_array() ? first[0] : first, {1e-9, 1e-12});
  } else {
    const bool cut = kind == "truncated_normal";
    c.fact("it is not " + kind, found.kind == (cut ? Distribution::kTruncatedNormal : Distribution::kNormal));
    c.scalar("mean", found.mean, expected["mean"], {1e-9, 1e-12});
    c.scalar("stddev", found.stddev, expected[cut ? "parameter_stddev" : "stddev"], {1e-9, 1e-12});
  }
}

/// The rows or columns that Keras makes orthonormal, times the gain, have these products.
void compare_orthogonal(Comparison& c, const graph::Initializer& found, const Shape& shape,
                        const nlohmann::json& expected) {
  const auto rows = expected["matrix"][0].get<std::size_t>(), columns = expected["matrix"][1].get<std::size_t>();
  std::vector<double> q(rows * columns);
  runtime::initial_values(found, shape, {Shape(shape.size(), 0), shape}, DType::kF64, 0, elements(shape), q.data());
  const bool of_columns = expected["orthonormal"] == "columns";
  const double gain = expected["gain"];
  for (std::size_t i = 0; i < std::min(rows, columns); ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double product = 0;
      for (std::size_t k = 0; k < std::max(rows, columns); ++k)
        product += of_columns ? q[k * columns + i] * q[k * columns + j] : q[i * columns + k] * q[j * columns + k];
      c.scalar(fmt::format("product of {} and {}", i, j), product, i == j ? gain * gain : 0, {1e-12, 1e-12});
    }
}

}  // namespace

void run_schedules(Tally& tally) {
  if (!exists("schedules.json")) return;
  int number = 0;
  for (const auto& one : read_json("schedules.json")) {
    const std::string name = one["schedule"];
    const auto docs = layers::schedule_docs();
    std::optional<std::string> skip;
    if (std::none_of(docs.begin(), docs.end(), [&](const auto& d) { return d.first == name; }))
      skip = "schedule " + name;
    tally.run(fmt::format("schedules/{}_{}", name, number++), skip, [&](Comparison& c) {
      const auto schedule = layers::make_schedule(config::parse(nlohmann::json{{name, one["config"]}}.dump(), name));
      for (std::size_t i = 0; i < one["steps"].size(); ++i)
        c.scalar(fmt::format("step {}", one["steps"][i].get<std::int64_t>()), schedule(one["steps"][i]),
                 one["values"][i], {5e-6, 1e-9});
    });
  }
}

void run_initializers(Tally& tally) {
  if (!exists("initializers.json")) return;
  const auto reference = read_json("initializers.json");
  int number = 0;
  for (const auto& one : reference["initializers"]) {
    const std::string name = one["initializer"];
    tally.run(fmt::format("initializers/{}_{}", name, number++), std::nullopt, [&](Comparison& c) {
      const auto shape = one["shape"].get<Shape>();
      const auto found = layers::make_initializer(constructor(name, one["config"]), shape, 0, "kernel");
      one["kind"] == "orthogonal" ? compare_orthogonal(c, found, shape, one) : compare(c, found, one);
    });
  }
}

}  // namespace tessera::keras
