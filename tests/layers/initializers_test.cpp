#include "layers/initializers.h"

#include <gtest/gtest.h>

#include "core/philox.h"
#include "expect_error.h"
#include "layers/reference.h"

namespace tessera::layers {
namespace {

using Kind = graph::Initializer::Kind;

graph::Initializer make(const std::string& yaml, const Shape& shape) {
  return make_initializer(config::as_constructor(config::parse(yaml, "test.yaml"), "initializer"), shape, 7,
                          "a/kernel");
}

void expect_like(const graph::Initializer& i, const nlohmann::json& c) {
  const std::string kind = c["kind"];
  const auto near = [](double a, double b) { EXPECT_NEAR(a, b, 1e-12 + 1e-9 * std::abs(b)); };
  if (kind == "uniform") {
    EXPECT_EQ(i.kind, Kind::kUniform);
    near(i.low, c["low"]);
    near(i.high, c["high"]);
  } else if (kind == "fixed") {
    const auto first = c["values"][0];
    near(i.value, first.is_array() ? first[0].get<double>() : first.get<double>());
  } else if (kind == "orthogonal") {
    EXPECT_EQ(i.kind, Kind::kOrthogonal);
    near(i.value, c["gain"]);
  } else {
    EXPECT_EQ(i.kind, kind == "normal" ? Kind::kNormal : Kind::kTruncatedNormal);
    near(i.mean, c["mean"]);
    near(i.stddev, c[kind == "normal" ? "stddev" : "parameter_stddev"]);
  }
}

TEST(Initializers, HaveKerasDistributions) {
  int count = 0;
  const auto reference = read_reference("initializers.json");
  for (const auto& c : reference["initializers"]) {
    SCOPED_TRACE(c.dump());
    const auto node = constructor_node(c["initializer"], c["config"]);
    expect_like(make_initializer(config::as_constructor(node, "initializer"), c["shape"].get<Shape>(), 7, "a/kernel"),
                c);
    ++count;
  }
  EXPECT_GT(count, 60);
}

TEST(Initializers, FansAreKerass) {
  const auto reference = read_reference("initializers.json");
  for (const auto& c : reference["layer_defaults"]) {
    const std::string layer = c["layer"];
    if (layer != "Dense" && layer != "EinsumDense" && layer != "Conv2D") continue;
    const auto fans = compute_fans(c["shape"].get<Shape>());
    EXPECT_EQ(fans.in, c["fan_in"].get<double>()) << c.dump();
    EXPECT_EQ(fans.out, c["fan_out"].get<double>()) << c.dump();
  }
}

TEST(Initializers, NamesOfBothKinds) {
  EXPECT_EQ(make("glorot_uniform", {4, 8}), make("GlorotUniform", {4, 8}));
  EXPECT_EQ(make("uniform", {4}), make("RandomUniform", {4}));
}

TEST(Initializers, KeyIsOfSeedAndPath) {
  EXPECT_EQ(make("he_normal", {4, 8}).key, philox_key(7, "init", "a/kernel"));
  EXPECT_EQ(make("{he_normal: {seed: 3}}", {4, 8}).key, philox_key(3, "init", "a/kernel"));
}

TEST(Initializers, OrthogonalNeedsAMatrix) {
  EXPECT_CONFIG_ERROR(make("orthogonal", {4}), "2 dimensions or more");
  EXPECT_EQ(make("{orthogonal: {gain: 2}}", {3, 3, 4, 8}).value, 2);
}

TEST(Initializers, IdentityNeedsAMatrix) { EXPECT_CONFIG_ERROR(make("identity", {4}), "2 dimensions"); }

TEST(Initializers, UnknownNamesGetAHint) { EXPECT_CONFIG_ERROR(make("he_nromal", {4}), "did you mean 'he_normal'?"); }

}  // namespace
}  // namespace tessera::layers
