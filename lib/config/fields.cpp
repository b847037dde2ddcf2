#include "config/fields.h"

#include <algorithm>
#include <limits>

#include "config/scalar.h"
#include "core/text.h"

namespace tessera::config {

Check operator|(const Check& a, const Check& b) {
  Check both{a.sentence + " and " + b.sentence, {}, {}};
  both.number = [a, b](double value) { return a.number(value) && b.number(value); };
  return both;
}

Check at_least(double low) {
  return {fmt::format("at least {}", low), [low](double value) { return value >= low; }, {}};
}

Check below(double high) {
  return {fmt::format("below {}", high), [high](double value) { return value < high; }, {}};
}

Check one_of(std::vector<std::string> choices) {
  return {(choices.size() > 1 ? "one of " : "") + join(choices), {}, std::move(choices)};
}

namespace detail {

void read_value(const Node& node, const std::string& what, bool& value) { value = node.as_bool(what); }

void read_value(const Node& node, const std::string& what, int& value) {
  const auto wide = node.as_int(what);
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max())
    fail_at(node.pos, ExitCode::kConfig, "{} must be a whole number of at most 32 bits, found {}", what, wide);
  value = static_cast<int>(wide);
}

void read_value(const Node& node, const std::string& what, std::int64_t& value) { value = node.as_int(what); }
void read_value(const Node& node, const std::string& what, double& value) { value = node.as_number(what); }
void read_value(const Node& node, const std::string& what, std::string& value) { value = node.as_text(what); }
void read_value(const Node& node, const std::string&, Node& value) { value = node; }
void read_value(const Node& node, const std::string& what, Constructor& value) { value = as_constructor(node, what); }

std::string type_name(const bool&) { return "bool"; }
std::string type_name(const int&) { return "int"; }
std::string type_name(const std::int64_t&) { return "int"; }
std::string type_name(const double&) { return "float"; }
std::string type_name(const std::string&) { return "text"; }
std::string type_name(const Node&) { return "any"; }
std::string type_name(const Constructor&) { return "name or {Name: {arguments}}"; }

Node default_node(bool value) { return bool_node(value); }
Node default_node(int value) { return int_node(value); }
Node default_node(std::int64_t value) { return int_node(value); }

Node default_node(double value) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = fmt::format("{}", value);
  return node;
}

Node default_node(const std::string& yaml_or_text, bool is_text) {
  return is_text ? text_node(yaml_or_text) : parse(yaml_or_text, "default");
}

void apply_check(const Check& check, const Node& node, const std::string& what) {
  if (check.is_empty() || node.is_null()) return;
  for (const auto& item : node.items) apply_check(check, item, what);
  if (!node.is_scalar()) return;
  if (check.number) {
    if (!check.number(node.as_number(what)))
      fail_at(node.pos, ExitCode::kConfig, "{} must be {}, found {}", what, check.sentence, node.text);
  } else if (std::find(check.choices.begin(), check.choices.end(), node.text) == check.choices.end()) {
    fail_at(node.pos, ExitCode::kConfig, "{} must be {}, found {}{}", what, check.sentence, describe(node),
            did_you_mean(node.text, check.choices));
  }
}

}  // namespace detail
}  // namespace tessera::config
