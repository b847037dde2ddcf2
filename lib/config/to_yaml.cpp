#include <cctype>

#include "config/node.h"
#include "config/scalar.h"

namespace tessera::config {
namespace {

constexpr std::size_t kLineLength = 110;

/// Needs no quotes in any place: letters, digits and _ . / + -, not like a marker in front.
bool is_safe_plain(const std::string& text) {
  if (text.empty()) return false;
  const auto first = static_cast<unsigned char>(text.front());
  if (std::isalnum(first) == 0 && first != '/' && first != '_') return false;
  return text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+-") ==
         std::string::npos;
}

std::string in_quotes(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string key_text(const std::string& key) { return is_safe_plain(key) ? key : in_quotes(key); }

std::string flow(const Node& node) {
  std::string result;
  switch (node.kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kScalar: {
      const bool is_typed = scalar_kind(node.text) != ScalarKind::kText;
      const bool plain = !node.quoted ? is_typed || is_safe_plain(node.text) : !is_typed && is_safe_plain(node.text);
      return plain ? node.text : in_quotes(node.text);
    }
    case Node::Kind::kSequence:
      for (const auto& item : node.items) result += (result.empty() ? "" : ", ") + flow(item);
      return "[" + result + "]";
    case Node::Kind::kMap:
      for (const auto& entry : node.entries)
        result += (result.empty() ? "" : ", ") + key_text(entry.key) + ": " + flow(entry.value);
      return "{" + result + "}";
  }
  return result;
}

/// The lines of a node at an indent, each with its newline.
void block(const Node& node, std::size_t indent, bool always_block, std::string& out) {
  const std::string margin(indent, ' ');
  const bool is_composite = (node.is_map() && !node.entries.empty()) || (node.is_sequence() && !node.items.empty());
  const auto line = flow(node);
  if (!is_composite || (!always_block && indent + line.size() <= kLineLength)) {
    out += margin + line + "\n";
    return;
  }
  for (const auto& item : node.items) {
    std::string lines;
    block(item, indent + 2, false, lines);
    lines[indent] = '-';
    out += lines;
  }
  for (const auto& entry : node.entries) {
    std::string lines;
    block(entry.value, indent + 2, false, lines);
    const auto key = margin + key_text(entry.key) + ":";
    const bool is_one_line = lines.find('\n') == lines.size() - 1;
    out += is_one_line ? key + " " + lines.substr(indent + 2) : key + "\n" + lines;
  }
}

}  // namespace

std::string to_yaml_line(const Node& node) { return flow(node); }

std::string to_yaml(const Node& node) {
  std::string out;
  block(node, 0, true, out);
  return out;
}

}  // namespace tessera::config
