#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/node.h"

namespace tessera::config {

/// Reads the arguments of a class (layer, loss, metric, optimizer, schedule, initialiser) into a struct:
///
///     struct DropoutConfig { double rate; std::optional<std::int64_t> seed; Constructor kernel_initializer; };
///     const Fields<DropoutConfig> kDropout("Dropout", {
///       field("rate", &DropoutConfig::rate, at_least(0) | below(1)),            // no default: required
///       field("seed", &DropoutConfig::seed, std::nullopt),
///       field("kernel_initializer", &DropoutConfig::kernel_initializer, "{RandomNormal: {stddev: 0.1}}"),
///     });
///     const auto config = kDropout.read(layer.arguments, layer.pos);
///
/// Types of members: bool, int, int64, double, string; optional of them (YAML null: nothing); vector of them (one value
/// is a list of one); Node (as written); Constructor; vector<Constructor>; optional<Constructor>. A default of a Node
/// or Constructor is YAML text.

/// What a value must also be: "units must be positive, found 0". For a list: each element.
struct Check {
  std::string sentence;
  std::function<bool(double)> number;  // for numbers
  std::vector<std::string> choices;    // for texts

  bool is_empty() const { return sentence.empty(); }
};

/// Both must hold.
Check operator|(const Check& a, const Check& b);

/// Inline, so that they are there before any table of fields in another file.
// NOLINTBEGIN(readability-identifier-naming): they read as words in a table of fields
inline const Check positive{"positive", [](double value) { return value > 0; }, {}};
inline const Check non_negative{"at least 0", [](double value) { return value >= 0; }, {}};
inline const Check in_0_1{"between 0 and 1", [](double value) { return value >= 0 && value <= 1; }, {}};
// NOLINTEND(readability-identifier-naming)
/// >= low; < high.
Check at_least(double low);
Check below(double high);
Check one_of(std::vector<std::string> choices);

/// The schema of one argument, for `trainer schema` and the docs.
struct FieldDoc {
  std::string name;
  std::string type;          // "int", "list of int", "float or null"
  std::string default_text;  // YAML; "" if required
  bool is_required = false;
  std::string check;  // "positive"; "" for none

  bool operator==(const FieldDoc&) const = default;
};

namespace detail {

void read_value(const Node& node, const std::string& what, bool& value);
void read_value(const Node& node, const std::string& what, int& value);
void read_value(const Node& node, const std::string& what, std::int64_t& value);
void read_value(const Node& node, const std::string& what, double& value);
void read_value(const Node& node, const std::string& what, std::string& value);
void read_value(const Node& node, const std::string& what, Node& value);
void read_value(const Node& node, const std::string& what, Constructor& value);

template <typename T>
void read_value(const Node& node, const std::string& what, std::optional<T>& value) {
  value.reset();
  if (!node.is_null()) read_value(node, what, value.emplace());
}

template <typename T>
void read_value(const Node& node, const std::string& what, std::vector<T>& values) {
  values.clear();
  const auto read_one = [&](const Node& item) {
    T value{};  // vector<bool> has no references
    read_value(item, what, value);
    values.push_back(std::move(value));
  };
  if (!node.is_sequence()) return read_one(node);
  for (const auto& item : node.items) read_one(item);
}

std::string type_name(const bool&);
std::string type_name(const int&);
std::string type_name(const std::int64_t&);
std::string type_name(const double&);
std::string type_name(const std::string&);
std::string type_name(const Node&);
std::string type_name(const Constructor&);
template <typename T>
std::string type_name(const std::optional<T>&) {
  return type_name(T{}) + " or null";
}
template <typename T>
std::string type_name(const std::vector<T>&) {
  return "list of " + type_name(T{});
}

/// Defaults as nodes, so that they pass through the same reading as what a person writes.
Node default_node(bool value);
Node default_node(int value);
Node default_node(std::int64_t value);
Node default_node(double value);
Node default_node(const std::string& yaml_or_text, bool is_text);
inline Node default_node(const std::nullopt_t&) { return {}; }
template <typename T>
Node default_list(const std::vector<T>& values) {
  Node list;
  list.kind = Node::Kind::kSequence;
  for (const auto& value : values) {
    if constexpr (std::same_as<T, std::string>) {
      list.items.push_back(text_node(value));
    } else {
      list.items.push_back(default_node(value));
    }
  }
  return list;
}

template <typename T>
inline constexpr bool kIsTextLike = false;
template <>
inline constexpr bool kIsTextLike<std::string> = true;
template <>
inline constexpr bool kIsTextLike<std::optional<std::string>> = true;

template <typename T, typename D>
Node make_default(const D& value) {
  if constexpr (std::convertible_to<D, std::string>) {
    return default_node(std::string(value), kIsTextLike<T>);
  } else if constexpr (requires { value.begin(); }) {
    return default_list(value);
  } else {
    return default_node(value);
  }
}

/// Every number or text in the node must pass.
void apply_check(const Check& check, const Node& node, const std::string& what);

}  // namespace detail

template <typename C>
struct Field {
  FieldDoc doc;
  Node default_value;
  std::function<void(const Node&, const std::string& what, C&)> read;

  Field(FieldDoc documentation, Node fallback, std::function<void(const Node&, const std::string&, C&)> reader)
      : doc(std::move(documentation)), default_value(std::move(fallback)), read(std::move(reader)) {}
  /// A field of a base class is one of the derived class.
  template <typename Base>
  requires std::derived_from<C, Base> &&
      (!std::same_as<C, Base>)Field(const Field<Base>& other)  // NOLINT(google-explicit-constructor)
      : doc(other.doc), default_value(other.default_value), read(other.read) {}
};

/// Required.
template <typename C, typename T>
Field<C> field(const std::string& name, T C::*member, const Check& check = {}) {
  FieldDoc doc{name, detail::type_name(T{}), "", true, check.sentence};
  return {std::move(doc), Node{}, [member, check](const Node& node, const std::string& what, C& config) {
            detail::read_value(node, what, config.*member);
            detail::apply_check(check, node, what);
          }};
}

/// With a default.
template <typename C, typename T, typename D>
requires(!std::same_as<std::decay_t<D>, Check>) Field<C> field(const std::string& name, T C::*member,
                                                               const D& default_value, const Check& check = {}) {
  auto result = field(name, member, check);
  result.default_value = detail::make_default<T>(default_value);
  result.doc.default_text = to_yaml_line(result.default_value);
  result.doc.is_required = false;
  return result;
}

/// All arguments of one class.
template <typename C>
class Fields {
 public:
  Fields(std::string owner, std::vector<Field<C>> fields) : owner_(std::move(owner)), fields_(std::move(fields)) {}

  /// `arguments` is a mapping or null; `pos` is where the class is named. Keys in `others` are left to the caller.
  /// Throws Error (config) with the place for an unknown or missing key, a wrong type and a failed check.
  C read(const Node& arguments, const SourcePos& pos, const std::vector<std::string>& others = {}) const {
    if (!arguments.is_null()) {
      auto known = others;
      for (const auto& field : fields_) known.push_back(field.doc.name);
      require_keys(arguments, known, owner_);
    }
    C config{};
    for (const auto& field : fields_) {
      const Node* node = arguments.find(field.doc.name);
      if (node == nullptr && field.doc.is_required)
        fail_at(pos, ExitCode::kConfig, "{} needs '{}' ({})", owner_, field.doc.name, field.doc.type);
      field.read(node != nullptr ? *node : field.default_value, owner_ + ": " + field.doc.name, config);
    }
    return config;
  }

  /// The arguments with every default written out, in the order of the table.
  Node with_defaults(const Node& arguments) const {
    Node result;
    result.kind = Node::Kind::kMap;
    for (const auto& field : fields_) {
      const Node* node = arguments.find(field.doc.name);
      add_entry(result, field.doc.name, node != nullptr ? *node : field.default_value);
    }
    return result;
  }

  const std::string& owner() const { return owner_; }
  std::vector<FieldDoc> docs() const {
    std::vector<FieldDoc> result;
    for (const auto& field : fields_) result.push_back(field.doc);
    return result;
  }

 private:
  std::string owner_;
  std::vector<Field<C>> fields_;
};

}  // namespace tessera::config
