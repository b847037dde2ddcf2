#include "config/node.h"

#include <gtest/gtest.h>

#include "core/error_text.h"

namespace tessera::config {
namespace {

Node yaml(const std::string& text) { return parse(text, "c.yaml"); }
std::string parse_error(const std::string& text) {
  return error_text([&] { yaml(text); });
}

TEST(Parse, EveryKeyAndValueKnowsItsPlace) {
  const auto root = yaml("fit:\n  epochs: 5\n  names: [a, bc]\n");
  const auto& fit = root.entries.at(0);
  EXPECT_EQ(fit.pos, (SourcePos{"c.yaml", 1, 1}));
  EXPECT_EQ(fit.value.entries.at(0).pos, (SourcePos{"c.yaml", 2, 3}));
  EXPECT_EQ(fit.value.entries.at(0).value.pos, (SourcePos{"c.yaml", 2, 11}));
  EXPECT_EQ(fit.value.find("names")->items.at(1).pos, (SourcePos{"c.yaml", 3, 14}));
}

TEST(Parse, ColumnsCountCharacters) { EXPECT_EQ(yaml("{é: 1, b: 2}").find("b")->pos, (SourcePos{"c.yaml", 1, 11})); }

TEST(Parse, AnEmptyValueStandsAtItsKey) { EXPECT_EQ(yaml("a:\nb: 1\n").find("a")->pos, (SourcePos{"c.yaml", 1, 1})); }

TEST(Parse, OnlyTrueAndFalseAreBooleans) {
  const auto root = yaml("{y: yes, on: off, t: true, f: False}");
  EXPECT_EQ(root.find("y")->as_text("y"), "yes");
  EXPECT_EQ(root.find("on")->as_text("on"), "off");
  EXPECT_TRUE(root.find("t")->as_bool("t"));
  EXPECT_FALSE(root.find("f")->as_bool("f"));
}

TEST(Parse, NullsOfJson) {
  const auto root = yaml(R"({"a": null, "b": [null, ~], "c": "null"})");
  EXPECT_TRUE(root.find("a")->is_null());
  EXPECT_TRUE(root.find("b")->items.at(0).is_null());
  EXPECT_TRUE(root.find("b")->items.at(1).is_null());
  EXPECT_EQ(root.find("c")->as_text("c"), "null");
}

TEST(Parse, AliasesAreExpanded) {
  const auto root = yaml("a: &x {n: 1}\nb: *x\n");
  EXPECT_EQ(root.find("b")->find("n")->as_int("n"), 1);
}

TEST(Parse, Refusals) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "c.yaml: the text is empty"},
      {"# only a comment\n", "c.yaml: the text is empty"},
      {"a: 1\nb: 2\na: 3\n", "c.yaml:3:1: key 'a' is given twice; the first is at 1:1"},
      {"{y: 1, \"y\": 2}", "c.yaml:1:8: key 'y' is given twice; the first is at 1:2"},
      {"a: 1\n---\nb: 2\n", "c.yaml:2:1: a second document begins here; a config is one document"},
      {"a: &x {n: 1}\nb:\n  <<: *x\n", "c.yaml:3:3: merge key '<<' is not part of YAML 1.2; write the keys out"},
      {"[1, 2]: 3", "c.yaml:1:1: a key must be text, found a list"},
      {"a: &x [*x]", "c.yaml:1:8: an alias inside its own anchor would never end"},
      {"a: !!binary Zm8=",
       "c.yaml:1:4: the tag 'tag:yaml.org,2002:binary' is not supported; write the value without it"},
      {"a: \xff", "c.yaml:1:4: byte 0xff is not UTF-8; save the file as UTF-8"},
      {"a: b\x01", "c.yaml:1:5: control character 0x01 is not allowed in YAML"},
      {"a: *nobody", "c.yaml:1:4: not YAML: the referenced anchor is not defined"},
  };
  for (const auto& [text, sentence] : cases) EXPECT_EQ(parse_error(text), sentence) << text;
}

TEST(Parse, ATabIsNamed) {
  EXPECT_NE(parse_error("a:\n\tb: 1\n\tc: [2\n").find("indented by a tab"), std::string::npos);
}

TEST(Parse, DeepNestingIsAnErrorNotACrash) {
  constexpr std::size_t kDepth = 10'000;
  std::string maps, lists;
  for (std::size_t i = 0; i < kDepth; ++i) {
    maps += "{a: ";
    lists += "- ";
  }
  EXPECT_EQ(parse_error("[" + std::string(kDepth, '[') + std::string(kDepth, ']') + "]"),
            "c.yaml:1:101: the text is nested deeper than 100 levels");
  EXPECT_EQ(parse_error(maps + "1" + std::string(kDepth, '}')),
            "c.yaml:1:401: the text is nested deeper than 100 levels");
  EXPECT_EQ(parse_error(lists), "c.yaml:1:201: the text is nested deeper than 100 levels");
  for (const auto& open : {std::string(kDepth, '['), maps, std::string(kDepth, '{')}) EXPECT_NE(parse_error(open), "");
}

TEST(Parse, AliasesCannotBlowUp) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const auto before = "*a" + std::to_string(i - 1);
    laughs += fmt::format("a{0}: &a{0} [{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}]\n", i, before);
  }
  EXPECT_NE(parse_error(laughs).find("more than 200000 values"), std::string::npos);
}

TEST(Conversion, Numbers) {
  EXPECT_EQ(yaml("0x1F").as_int("n"), 31);
  EXPECT_EQ(yaml("0o17").as_int("n"), 15);
  EXPECT_EQ(yaml("-7").as_int("n"), -7);
  EXPECT_EQ(yaml("+7").as_int("n"), 7);
  EXPECT_EQ(yaml("-9223372036854775808").as_int("n"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(yaml("1e-3").as_number("n"), 1e-3);
  EXPECT_EQ(yaml(".5").as_number("n"), 0.5);
  EXPECT_EQ(yaml("+2.").as_number("n"), 2.0);
  EXPECT_EQ(yaml("3").as_number("n"), 3.0);
  EXPECT_EQ(yaml("1.0e-05").as_number("n"), 1e-5);
}

TEST(Conversion, Refusals) {
  const auto as_int = [](const char* text) { return error_text([&] { yaml(text).as_int("units"); }); };
  const auto as_number = [](const char* text) { return error_text([&] { yaml(text).as_number("rate"); }); };
  const auto as_text = [](const char* text) { return error_text([&] { yaml(text).as_text("name"); }); };
  const auto as_bool = [](const char* text) { return error_text([&] { yaml(text).as_bool("shuffle"); }); };
  EXPECT_EQ(as_int("1.0"), "c.yaml:1:1: units must be a whole number, found 1.0");
  EXPECT_EQ(as_int("1e3"), "c.yaml:1:1: units must be a whole number, found 1e3");
  EXPECT_EQ(as_int("'5'"), "c.yaml:1:1: units must be a whole number, found the text '5'");
  EXPECT_EQ(as_int("1_000"), "c.yaml:1:1: units must be a whole number, found the text '1_000'");
  EXPECT_EQ(as_int("[5]"), "c.yaml:1:1: units must be a whole number, found a list");
  EXPECT_EQ(as_int("9223372036854775808"),
            "c.yaml:1:1: units must be a whole number of at most 64 bits, found 9223372036854775808");
  EXPECT_EQ(as_number(".nan"), "c.yaml:1:1: rate must be a finite number, found .nan");
  EXPECT_EQ(as_number("-.inf"), "c.yaml:1:1: rate must be a finite number, found -.inf");
  EXPECT_EQ(as_number("nan"), "c.yaml:1:1: rate must be a number, found the text 'nan'");
  EXPECT_EQ(as_number("1e999"), "c.yaml:1:1: rate must be within the range of a 64-bit float, found 1e999");
  EXPECT_EQ(as_number("~"), "c.yaml:1:1: rate must be a number, found null");
  EXPECT_EQ(as_text("5"), "c.yaml:1:1: name must be text, found 5; in quotes it is text: '5'");
  EXPECT_EQ(as_text("{a: 1}"), "c.yaml:1:1: name must be text, found a mapping");
  EXPECT_EQ(as_bool("yes"), "c.yaml:1:1: shuffle must be true or false, found the text 'yes'");
  EXPECT_EQ(as_bool("1"), "c.yaml:1:1: shuffle must be true or false, found 1");
}

TEST(Constructor, ANameOrAMappingWithOneKey) {
  EXPECT_EQ(as_constructor(yaml("adam"), "optimizer").name, "adam");
  const auto sgd = as_constructor(yaml("{SGD: {momentum: 0.9}}"), "optimizer");
  EXPECT_EQ(sgd.name, "SGD");
  EXPECT_EQ(sgd.arguments.find("momentum")->as_number("momentum"), 0.9);
  EXPECT_EQ(error_text([] { as_constructor(yaml("{A: 1}"), "loss"); }),
            "c.yaml:1:5: the arguments of A must be a mapping, found 1");
  EXPECT_EQ(
      error_text([] { as_constructor(yaml("{A: , B: }"), "loss"); }),
      "c.yaml:1:1: loss must be a name or a mapping with one key, {Name: {arguments}}, found a mapping with 2 keys");
  EXPECT_EQ(error_text([] { as_constructor(yaml("[A]"), "loss"); }),
            "c.yaml:1:1: loss must be a name or a mapping with one key, {Name: {arguments}}, found a list");
}

TEST(ToYaml, ParsesToTheSameTree) {
  const std::string text =
      "a: {b: '5', c: 5, d: \"x: \\\"y\\\"\\n\", e: .inf, 'f g': [null, [], {}]}\n"
      "long:\n  - {kernel_initializer: glorot_uniform_with_a_long_name, bias_initializer: "
      "another_long_name_that_fills_it}\n"
      "  - [1, 2]\n  - a very long text that wants quotes because it has spaces, and is over one hundred characters "
      "long: '\n";
  const auto quoted = text.substr(0, text.rfind("- a very")) + "- \"" + text.substr(text.rfind("a very"), 60) + "\"\n";
  const auto once = to_yaml(yaml(quoted));
  EXPECT_EQ(to_yaml(yaml(once)), once);
  EXPECT_EQ(yaml(once).find("a")->find("b")->as_text("b"), "5");
  EXPECT_EQ(yaml(once).find("a")->find("d")->as_text("d"), "x: \"y\"\n");
}

}  // namespace
}  // namespace tessera::config
