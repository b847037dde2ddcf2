#include "config/node.h"

#include <algorithm>

#include "config/scalar.h"
#include "core/text.h"

namespace tessera::config {
namespace {

/// A plain scalar's kind; of all else kText.
ScalarKind kind_of(const Node& node) {
  return node.is_scalar() && !node.quoted ? scalar_kind(node.text) : ScalarKind::kText;
}

[[noreturn]] void refuse(const Node& node, const std::string& what, const std::string& expected) {
  fail_at(node.pos, ExitCode::kConfig, "{} must be {}, found {}", what, expected, describe(node));
}

Node scalar(const std::string& text, const SourcePos& pos) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.pos = pos;
  node.text = text;
  return node;
}

}  // namespace

const Node* Node::find(const std::string& key) const {
  const auto it = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return it == entries.end() ? nullptr : &it->value;
}

std::string Node::as_text(const std::string& what) const {
  if (!is_scalar()) refuse(*this, what, "text");
  if (kind_of(*this) != ScalarKind::kText)
    fail_at(pos, ExitCode::kConfig, "{} must be text, found {}; in quotes it is text: '{}'", what, describe(*this),
            shortened(text));
  return text;
}

std::int64_t Node::as_int(const std::string& what) const {
  if (kind_of(*this) != ScalarKind::kInt) refuse(*this, what, "a whole number");
  const auto value = parse_int(text);
  if (!value) refuse(*this, what, "a whole number of at most 64 bits");
  return *value;
}

double Node::as_number(const std::string& what) const {
  const auto scalar_type = kind_of(*this);
  if (scalar_type == ScalarKind::kNotFinite) refuse(*this, what, "a finite number");
  if (scalar_type != ScalarKind::kInt && scalar_type != ScalarKind::kFloat) refuse(*this, what, "a number");
  const auto value = parse_number(text);
  if (!value) refuse(*this, what, "within the range of a 64-bit float");
  return *value;
}

bool Node::as_bool(const std::string& what) const {
  if (kind_of(*this) != ScalarKind::kBool) refuse(*this, what, "true or false");
  return text.front() == 't' || text.front() == 'T';
}

Node text_node(const std::string& text, const SourcePos& pos) {
  auto node = scalar(text, pos);
  node.quoted = scalar_kind(text) != ScalarKind::kText;
  return node;
}

Node int_node(std::int64_t value, const SourcePos& pos) { return scalar(std::to_string(value), pos); }

Node bool_node(bool value, const SourcePos& pos) { return scalar(value ? "true" : "false", pos); }

void add_entry(Node& map, const std::string& key, Node value, const SourcePos& key_pos) {
  map.kind = Node::Kind::kMap;
  map.entries.push_back({key, key_pos, std::move(value)});
}

std::string shortened(const std::string& text) {
  std::size_t length = 80;
  if (text.size() <= length) return text;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;  // whole characters
  return text.substr(0, length) + "...";
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kSequence:
      return "a list";
    case Node::Kind::kMap:
      return "a mapping";
    case Node::Kind::kScalar:
      break;
  }
  return kind_of(node) == ScalarKind::kText ? "the text '" + shortened(node.text) + "'" : shortened(node.text);
}

void require_keys(const Node& map, const std::vector<std::string>& known, const std::string& what) {
  if (!map.is_map()) refuse(map, what, "a mapping");
  for (const auto& entry : map.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    auto hint = did_you_mean(entry.key, known);
    if (hint.empty()) hint = known.empty() ? "; it takes none" : "; it takes " + join(known);
    fail_at(entry.pos, ExitCode::kConfig, "unknown key '{}' in {}{}", shortened(entry.key), what, hint);
  }
}

Constructor as_constructor(const Node& node, const std::string& what) {
  constexpr auto kExpected = "a name or a mapping with one key, {Name: {arguments}}";
  Constructor result;
  if (node.is_scalar()) {
    result.name = node.as_text(what);
    result.pos = node.pos;
    result.arguments.pos = node.pos;
  } else if (node.is_map() && node.entries.size() == 1) {
    const auto& entry = node.entries.front();
    result.name = entry.key;
    result.pos = entry.pos;
    result.arguments = entry.value;
    if (!result.arguments.is_map() && !result.arguments.is_null())
      refuse(result.arguments, "the arguments of " + shortened(result.name), "a mapping");
  } else if (node.is_map()) {
    fail_at(node.pos, ExitCode::kConfig, "{} must be {}, found a mapping with {} keys", what, kExpected,
            node.entries.size());
  } else {
    refuse(node, what, kExpected);
  }
  if (result.name.empty()) fail_at(result.pos, ExitCode::kConfig, "{} must have a name, found ''", what);
  return result;
}

}  // namespace tessera::config
