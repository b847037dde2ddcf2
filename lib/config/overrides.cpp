#include "config/overrides.h"

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
      fail_at(place, ExitCode::kConfig, "'{}' is {}, not a mapping; set it as a whole: --set {}={{...}}", parent,
              describe(*node), parent);
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

  Node value;
  if (!value_text.empty()) value = parse(value_text, place.file);
  set_place(value, place);
  *node = std::move(value);
}

}  // namespace tessera::config
