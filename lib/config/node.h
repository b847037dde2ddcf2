#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace tessera::config {

/// A YAML text as a tree in which every part knows its place. Aliases are expanded; duplicate keys are refused; `y`,
/// `yes`, `on` are text, only true and false are booleans (YAML 1.2).
struct Node {
  enum class Kind : std::uint8_t { kNull, kScalar, kSequence, kMap };
  struct Entry;

  Kind kind = Kind::kNull;
  SourcePos pos;
  std::string text;     // of a scalar
  bool quoted = false;  // a quoted scalar is text whatever it looks like
  std::vector<Node> items;
  std::vector<Entry> entries;  // in the order of the text

  bool is_null() const { return kind == Kind::kNull; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_sequence() const { return kind == Kind::kSequence; }
  bool is_map() const { return kind == Kind::kMap; }
  /// The value of a key, nullptr if it is not there.
  const Node* find(const std::string& key) const;

  /// Conversions; each throws Error (config) with the place, what was expected and what is there. `what` names the key.
  std::string as_text(const std::string& what) const;
  std::int64_t as_int(const std::string& what) const;
  double as_number(const std::string& what) const;
  bool as_bool(const std::string& what) const;
};

/// A node for a text, quoted where YAML would read it as something else; for a number or a boolean.
Node text_node(const std::string& text, const SourcePos& pos = {});
Node int_node(std::int64_t value, const SourcePos& pos = {});
Node bool_node(bool value, const SourcePos& pos = {});

/// A text for messages: at most 80 bytes, "..." after what is longer.
std::string shortened(const std::string& text);

/// For messages: "the text 'relu'", "12", "a list", "a mapping", "null".
std::string describe(const Node& node);

/// YAML that parses to the same tree; short parts on one line.
std::string to_yaml(const Node& node);
std::string to_yaml_line(const Node& node);

struct Node::Entry {
  std::string key;
  SourcePos pos;
  Node value;
};

/// Appends an entry; the key must be new.
void add_entry(Node& map, const std::string& key, Node value, const SourcePos& key_pos = {});

/// Parses one document: at most 200,000 nodes after aliases are expanded, 100 levels deep. `file` is for messages.
/// Throws Error (config) with the place.
Node parse(const std::string& text, const std::string& file);

/// Refuses what is not a mapping, and keys that are not in `known`, with the nearest one that is. `what` names the
/// mapping ("fit", "layer Dense").
void require_keys(const Node& map, const std::vector<std::string>& known, const std::string& what);

/// A constructor: a mapping with one key, {Adam: {learning_rate: 0.1}}, or the bare name. `arguments` is null for the
/// latter.
struct Constructor {
  std::string name;
  SourcePos pos;
  Node arguments;
};
Constructor as_constructor(const Node& node, const std::string& what);

}  // namespace tessera::config
