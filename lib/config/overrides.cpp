#include "config/overrides.h"

#include <algorithm>
#include <charconv>

namespace tessera::config {
namespace {

void set_place(Node& node, const SourcePos& pos) {
  node.pos = pos;
  for (auto& item : node.items) set_place(item, pos);
  for (auto& entry : node.entries) {
    entry.pos = pos;
    set_place(entry.value, pos);
  }
}

/// Bytes of `path` that are its first key: the longest key of the map that it begins with, else up to a dot.
std::size_t key_length(const Node& map, const std::string& path) {
  std::size_t longest = 0;
  for (const auto& [key, pos, value] : map.entries) {
    const bool fits = path.starts_with(key) && (path.size() == key.size() || path[key.size()] == '.');
    if (fits && key.size() > longest) longest = key.size();
  }
  return longest > 0 ? longest : std::min(path.find('.'), path.size());
}

Node& item_at(Node& list, const std::string& index, const std::string& parent, const SourcePos& place) {
  std::size_t i = 0;
  const auto result = std::from_chars(index.data(), index.data() + index.size(), i);
  if (result.ec != std::errc() || result.ptr != index.data() + index.size())
    fail_at(place, ExitCode::kConfig, "'{}' is a list: expected an index, found '{}'", parent, index);
  if (i >= list.items.size())
    fail_at(place, ExitCode::kConfig, "index {} is beyond '{}', which has {} items; the first is 0", i, parent,
            list.items.size());
  return list.items[i];
}

Node parse_value(const std::string& text, const SourcePos& place) {
  try {
    return text.empty() ? Node{} : parse(text, "value");
  } catch (const Error& error) {
    fail_at(place, ExitCode::kConfig, "{}", error.what());
  }
}

/// "{outer: {key: value}}" of "Outer.key", "{name: {key: value}}" of "key"
std::string with_argument(const std::string& name, const std::string& path, const std::string& value) {
  const auto dot = path.find('.');
  if (dot == std::string::npos) return fmt::format("{{{}: {{{}: {}}}}}", name, path, value);
  return fmt::format("{{{}: {{{}: {}}}}}", path.substr(0, dot), path.substr(dot + 1), value);
}

/// How to write it where a bare name stands instead of a mapping: as an argument of that class or, in `distribution`,
/// beside the strategy.
std::string whole(const std::string& parent, const Node& name, const std::string& key, const std::string& value) {
  const auto dots = std::count(key.begin(), key.end(), '.');
  if (parent == "distribution" && dots == 0) return fmt::format("{{{}: null, {}: {}}}", name.text, key, value);
  const bool is_class = parent == "distribution" || parent.starts_with("compile.");
  if (is_class && dots <= 1) return with_argument(name.text, key, value);
  return "{...}";
}

}  // namespace

void apply_override(Node& root, const std::string& text) {
  const SourcePos place{"--set " + text, 0, 0};
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    fail_at(place, ExitCode::kConfig, "expected key=value, as in --set fit.epochs=1");
  const auto path = text.substr(0, equals);
  const auto value_text = text.substr(equals + 1);

  Node* node = &root;
  for (std::size_t done = 0; done <= path.size();) {
    const auto rest = path.substr(done);
    const auto parent = done == 0 ? std::string("the config") : path.substr(0, done - 1);
    const auto length = node->is_map() ? key_length(*node, rest) : std::min(rest.find('.'), rest.size());
    const auto key = rest.substr(0, length);
    if (key.empty()) fail_at(place, ExitCode::kConfig, "'{}' has an empty key", path);
    if (node->is_sequence()) {
      node = &item_at(*node, key, parent, place);
    } else if (node->is_scalar()) {
      fail_at(place, ExitCode::kConfig, "'{}' is {}, not a mapping; set it as a whole: --set '{}={}'", parent,
              describe(*node), parent, whole(parent, *node, rest, value_text));
    } else {
      if (node->find(key) == nullptr) {
        Node missing;
        missing.pos = place;
        add_entry(*node, key, missing, place);
      }
      node = const_cast<Node*>(std::as_const(*node).find(key));
    }
    done += length + 1;
  }

  auto value = parse_value(value_text, place);
  set_place(value, place);
  *node = std::move(value);
}

}  // namespace tessera::config
