#include "config/fields.h"

#include <gtest/gtest.h>

#include "core/error_text.h"

namespace tessera::config {
namespace {

struct Base {
  bool trainable = false;
};

struct Config : Base {
  std::int64_t units = 0;
  double rate = 0;
  std::optional<double> slope;
  std::optional<std::int64_t> seed;
  std::string padding;
  std::vector<std::int64_t> kernel_size;
  Constructor initializer;
  std::optional<Constructor> activation;
  Node call;
};

const Fields<Config>& toy() {
  static const Fields<Config> kFields(
      "Toy", {
                 field("units", &Config::units, positive),
                 field("rate", &Config::rate, 0.5, at_least(0) | below(1)),
                 field("slope", &Config::slope, std::nullopt, non_negative),
                 field("seed", &Config::seed, 3),
                 field("padding", &Config::padding, "valid", one_of({"valid", "same"})),
                 field("kernel_size", &Config::kernel_size, std::vector<std::int64_t>{1, 1}, positive),
                 field("initializer", &Config::initializer, "{RandomNormal: {stddev: 0.1}}"),
                 field("activation", &Config::activation, std::nullopt),
                 field("call", &Config::call, "{}"),
                 field("trainable", &Base::trainable, true),
             });
  return kFields;
}

Config read(const std::string& text) { return toy().read(parse(text, "c.yaml"), {"c.yaml", 9, 1}); }
std::string read_error(const std::string& text) {
  return error_text([&] { read(text); });
}

TEST(Fields, WhatIsNotWrittenHasItsDefault) {
  const auto config = read("units: 4");
  EXPECT_EQ(config.units, 4);
  EXPECT_EQ(config.rate, 0.5);
  EXPECT_EQ(config.slope, std::nullopt);
  EXPECT_EQ(config.seed, 3);
  EXPECT_EQ(config.padding, "valid");
  EXPECT_EQ(config.kernel_size, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(config.initializer.name, "RandomNormal");
  EXPECT_EQ(config.initializer.arguments.find("stddev")->as_number("stddev"), 0.1);
  EXPECT_FALSE(config.activation.has_value());
  EXPECT_TRUE(config.trainable);
}

TEST(Fields, WhatIsWrittenIsRead) {
  const auto config = read(
      "{units: 4, slope: 2, seed: null, kernel_size: 3, activation: {leaky_relu: {negative_slope: 0.1}}, trainable: "
      "false}");
  EXPECT_EQ(config.slope, 2.0);
  EXPECT_EQ(config.seed, std::nullopt);
  EXPECT_EQ(config.kernel_size, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(config.activation->name, "leaky_relu");
  EXPECT_FALSE(config.trainable);
}

TEST(Fields, Refusals) {
  EXPECT_EQ(read_error("{}"), "c.yaml:9:1: Toy needs 'units' (int)");
  EXPECT_EQ(read_error("{unit: 4}"), "c.yaml:1:2: unknown key 'unit' in Toy; did you mean 'units'?");
  EXPECT_EQ(read_error("{units: 0}"), "c.yaml:1:9: Toy: units must be positive, found 0");
  EXPECT_EQ(read_error("{units: four}"), "c.yaml:1:9: Toy: units must be a whole number, found the text 'four'");
  EXPECT_EQ(read_error("{units: 1, rate: 1}"), "c.yaml:1:18: Toy: rate must be at least 0 and below 1, found 1");
  EXPECT_EQ(read_error("{units: 1, padding: sam}"),
            "c.yaml:1:21: Toy: padding must be one of valid, same, found the text 'sam'; did you mean 'same'?");
  EXPECT_EQ(read_error("{units: 1, kernel_size: [3, 0]}"), "c.yaml:1:29: Toy: kernel_size must be positive, found 0");
  EXPECT_EQ(read_error("{units: 1, rate: null}"), "c.yaml:1:18: Toy: rate must be a number, found null");
}

TEST(Fields, NullArgumentsAreNone) {
  EXPECT_EQ(error_text([] { toy().read(Node{}, {"c.yaml", 9, 1}); }), "c.yaml:9:1: Toy needs 'units' (int)");
}

TEST(Fields, KeysOfTheCallerAreLeft) {
  EXPECT_EQ(toy().read(parse("{units: 1, dtype: float32}", "c.yaml"), {}, {"dtype"}).units, 1);
}

TEST(Fields, DocumentThemselves) {
  const auto docs = toy().docs();
  EXPECT_EQ(docs.at(0), (FieldDoc{"units", "int", "", true, "positive"}));
  EXPECT_EQ(docs.at(1), (FieldDoc{"rate", "float", "0.5", false, "at least 0 and below 1"}));
  EXPECT_EQ(docs.at(2), (FieldDoc{"slope", "float or null", "null", false, "at least 0"}));
  EXPECT_EQ(docs.at(5), (FieldDoc{"kernel_size", "list of int", "[1, 1]", false, "positive"}));
  EXPECT_EQ(docs.at(6).default_text, "{RandomNormal: {stddev: 0.1}}");
}

}  // namespace
}  // namespace tessera::config
