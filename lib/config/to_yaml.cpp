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

/// Whether a node goes on one line at an indent: null, a scalar, and what is empty or short.
bool fits_one_line(const Node& node, const std::string& line, std::size_t indent) {
  const bool has_parts = !node.entries.empty() || !node.items.empty();
  return !has_parts || indent + line.size() <= kLineLength;
}

/// The parts of a list or mapping, each on lines of its own with its newline.
void block(const Node& node, std::size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  for (const auto& item : node.items) {
    const auto line = flow(item);
    if (fits_one_line(item, line, indent)) {
      out.append(margin).append("- ").append(line).append("\n");
      continue;
    }
    const auto start = out.size();
    block(item, indent + 2, out);
    out[start + indent] = '-';
  }
  for (const auto& entry : node.entries) {
    const auto line = flow(entry.value);
    out.append(margin).append(key_text(entry.key)).append(":");
    if (fits_one_line(entry.value, line, indent)) {
      out.append(" ").append(line).append("\n");
    } else {
      out += "\n";
      block(entry.value, indent + 2, out);
    }
  }
}

}  // namespace

std::string to_yaml_line(const Node& node) { return flow(node); }

std::string to_yaml(const Node& node) {
  if (node.entries.empty() && node.items.empty()) return flow(node) + "\n";
  std::string out;
  block(node, 0, out);
  return out;
}

}  // namespace tessera::config
