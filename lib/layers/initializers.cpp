#include "layers/initializers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "config/fields.h"
#include "core/philox.h"
#include "layers/registry.h"

namespace tessera::layers {
namespace {

using graph::Initializer;
using Kind = Initializer::Kind;

struct Arguments {
  double value = 0;               // Constant
  double gain = 1;                // Identity, Orthogonal
  double minval = 0, maxval = 0;  // RandomUniform
  double mean = 0, stddev = 0;    // RandomNormal, TruncatedNormal
  double scale = 1;               // VarianceScaling
  std::string mode = "fan_in", distribution = "truncated_normal";
  std::optional<std::int64_t> seed;
};
using ArgumentFields = std::vector<config::Field<Arguments>>;

ArgumentFields none() { return {}; }
ArgumentFields value() { return {config::field("value", &Arguments::value, 0.0)}; }
ArgumentFields gain() { return {config::field("gain", &Arguments::gain, 1.0)}; }
ArgumentFields seed() { return {config::field("seed", &Arguments::seed, std::nullopt)}; }

ArgumentFields with_seed(ArgumentFields own) {
  own.push_back(seed().front());
  return own;
}

ArgumentFields random_gain() { return with_seed(gain()); }

ArgumentFields range() {
  return with_seed(
      {config::field("minval", &Arguments::minval, -0.05), config::field("maxval", &Arguments::maxval, 0.05)});
}

ArgumentFields moments() {
  return with_seed({config::field("mean", &Arguments::mean, 0.0),
                    config::field("stddev", &Arguments::stddev, 0.05, config::non_negative)});
}

ArgumentFields scaling() {
  return with_seed({config::field("scale", &Arguments::scale, 1.0, config::positive),
                    config::field("mode", &Arguments::mode, "fan_in", config::one_of({"fan_in", "fan_out", "fan_avg"})),
                    config::field("distribution", &Arguments::distribution, "truncated_normal",
                                  config::one_of({"truncated_normal", "untruncated_normal", "uniform"}))});
}

/// What an initialiser is made of.
struct Context {
  const config::Constructor& constructor;
  const Shape& shape;
  const Arguments& arguments;
};

/// What an initialiser is, and the seed that was given.
struct Made {
  Initializer initializer;
  std::optional<std::int64_t> seed;
};

Made constant(double value) {
  Made made;
  made.initializer.value = value;
  return made;
}

Made zeros(const Context&) { return constant(0); }
Made ones(const Context&) { return constant(1); }
Made constant_of(const Context& c) { return constant(c.arguments.value); }

Made identity(const Context& c) {
  if (c.shape.size() != 2)
    fail_at(c.constructor.pos, ExitCode::kConfig, "{} needs a variable with 2 dimensions, found {}", c.constructor.name,
            to_string(c.shape));
  Made made = constant(c.arguments.gain);
  made.initializer.kind = Kind::kIdentity;
  return made;
}

Made uniform(double low, double high, std::optional<std::int64_t> seed) {
  Made made;
  made.initializer.kind = Kind::kUniform;
  made.initializer.low = low;
  made.initializer.high = high;
  made.seed = seed;
  return made;
}

Made normal(Kind kind, double mean, double stddev, std::optional<std::int64_t> seed) {
  Made made;
  made.initializer.kind = kind;
  made.initializer.mean = mean;
  made.initializer.stddev = stddev;
  made.seed = seed;
  return made;
}

Made random_uniform(const Context& c) { return uniform(c.arguments.minval, c.arguments.maxval, c.arguments.seed); }

Made random_of(const Context& c, Kind kind) {
  return normal(kind, c.arguments.mean, c.arguments.stddev, c.arguments.seed);
}
Made random_normal(const Context& c) { return random_of(c, Kind::kNormal); }
Made truncated_normal(const Context& c) { return random_of(c, Kind::kTruncatedNormal); }

/// The stddev of a standard normal that is cut at 2 sigma: dividing by it gives the wanted one after the cut.
constexpr double kTruncatedStddev = 0.87962566103423978;

Made scaled(const Shape& shape, double scale, std::string_view mode, std::string_view distribution,
            std::optional<std::int64_t> seed) {
  const auto fans = compute_fans(shape);
  const double fan = mode == "fan_in" ? fans.in : mode == "fan_out" ? fans.out : (fans.in + fans.out) / 2;
  const double variance = scale / std::max(1.0, fan);
  if (distribution == "uniform") return uniform(-std::sqrt(3 * variance), std::sqrt(3 * variance), seed);
  if (distribution == "untruncated_normal") return normal(Kind::kNormal, 0, std::sqrt(variance), seed);
  return normal(Kind::kTruncatedNormal, 0, std::sqrt(variance) / kTruncatedStddev, seed);
}

Made variance_scaling(const Context& c) {
  const auto& a = c.arguments;
  return scaled(c.shape, a.scale, a.mode, a.distribution, a.seed);
}

Made scaled(const Context& c, double scale, std::string_view mode, std::string_view distribution) {
  return scaled(c.shape, scale, mode, distribution, c.arguments.seed);
}
Made glorot_uniform(const Context& c) { return scaled(c, 1, "fan_avg", "uniform"); }
Made glorot_normal(const Context& c) { return scaled(c, 1, "fan_avg", "truncated_normal"); }
Made he_uniform(const Context& c) { return scaled(c, 2, "fan_in", "uniform"); }
Made he_normal(const Context& c) { return scaled(c, 2, "fan_in", "truncated_normal"); }
Made lecun_uniform(const Context& c) { return scaled(c, 1, "fan_in", "uniform"); }
Made lecun_normal(const Context& c) { return scaled(c, 1, "fan_in", "truncated_normal"); }

Made orthogonal(const Context& c) {
  if (c.shape.size() < 2)
    fail_at(c.constructor.pos, ExitCode::kConfig, "{} needs a variable with 2 dimensions or more, found {}",
            c.constructor.name, to_string(c.shape));
  Made made = constant(c.arguments.gain);
  made.initializer.kind = Kind::kOrthogonal;
  made.seed = c.arguments.seed;
  return made;
}

struct Entry {
  std::string_view class_name, name, alias;
  ArgumentFields (*fields)();
  Made (*make)(const Context&);
};

constexpr std::array kInitializers{
    Entry{"Zeros", "zeros", "zero", none, zeros},
    Entry{"Ones", "ones", "one", none, ones},
    Entry{"Constant", "constant", "", value, constant_of},
    Entry{"Identity", "identity", "IdentityInitializer", gain, identity},
    Entry{"RandomUniform", "random_uniform", "uniform", range, random_uniform},
    Entry{"RandomNormal", "random_normal", "normal", moments, random_normal},
    Entry{"TruncatedNormal", "truncated_normal", "", moments, truncated_normal},
    Entry{"VarianceScaling", "variance_scaling", "", scaling, variance_scaling},
    Entry{"GlorotUniform", "glorot_uniform", "", seed, glorot_uniform},
    Entry{"GlorotNormal", "glorot_normal", "", seed, glorot_normal},
    Entry{"HeUniform", "he_uniform", "", seed, he_uniform},
    Entry{"HeNormal", "he_normal", "", seed, he_normal},
    Entry{"LecunUniform", "lecun_uniform", "", seed, lecun_uniform},
    Entry{"LecunNormal", "lecun_normal", "", seed, lecun_normal},
    Entry{"Orthogonal", "orthogonal", "OrthogonalInitializer", random_gain, orthogonal},
};

config::Fields<Arguments> fields_of(const Entry& entry) { return {std::string(entry.name), entry.fields()}; }

}  // namespace

std::vector<std::pair<std::string, std::vector<config::FieldDoc>>> initializer_docs() {
  std::vector<std::pair<std::string, std::vector<config::FieldDoc>>> docs;
  for (const auto& entry : kInitializers) docs.emplace_back(entry.name, fields_of(entry).docs());
  return docs;
}

Fans compute_fans(const Shape& shape) {
  if (shape.empty()) return {};
  if (shape.size() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double receptive = 1;
  for (std::size_t d = 0; d + 2 < shape.size(); ++d) receptive *= static_cast<double>(shape[d]);
  return {receptive * static_cast<double>(shape[shape.size() - 2]), receptive * static_cast<double>(shape.back())};
}

graph::Initializer make_initializer(const config::Constructor& initializer, const Shape& shape, std::uint64_t seed,
                                    const std::string& path) {
  std::vector<std::string> names, shown;
  for (const auto& entry : kInitializers) {
    if (initializer.name == entry.class_name || initializer.name == entry.name || initializer.name == entry.alias) {
      const auto arguments =
          config::Fields<Arguments>(initializer.name, entry.fields()).read(initializer.arguments, initializer.pos);
      auto made = entry.make({initializer, shape, arguments});
      made.initializer.key = philox_key(made.seed ? static_cast<std::uint64_t>(*made.seed) : seed, "init", path);
      return made.initializer;
    }
    names.emplace_back(entry.class_name);
    names.emplace_back(entry.name);
    shown.emplace_back(entry.name);
  }
  fail_at(initializer.pos, ExitCode::kConfig, "there is no initialiser '{}'{}", initializer.name,
          known_names(initializer.name, names, shown));
}

}  // namespace tessera::layers
