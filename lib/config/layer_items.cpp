#include "config/layer_items.h"

#include <map>

#include "config/layer_names.h"
#include "config/sections.h"

namespace tessera::config {
namespace {

Constructor read_class(const Node& node) {
  if (node.is_map() && node.entries.size() > 1 && node.entries.front().value.is_null())
    fail_at(node.entries[1].pos, ExitCode::kConfig, "'{}' stands beside {}, not below it; indent the arguments further",
            node.entries[1].key, node.entries.front().key);
  auto layer = as_constructor(node, "a layer");
  check_name(layer.name, layer.pos, "a layer's class");
  return layer;
}

/// Takes what the config room knows out of the arguments; the rest is the layer's own.
Item read_item(const Node& node) {
  auto layer = read_class(node);
  Item item;
  item.type = layer.name;
  item.pos = layer.pos;
  item.arguments.pos = layer.arguments.pos;
  const auto& given = layer.arguments;
  if (!given.is_null()) {
    if (item.is_repeat()) require_keys(given, {"name", "times", "layers", "inputs"}, "Repeat");
    if (item.is_sequential()) require_keys(given, {"name", "layers", "inputs"}, "Sequential");
    if (item.is_shared()) require_keys(given, {"name", "layer", "call", "inputs"}, "Shared");
  }
  const bool is_block = item.is_repeat() || item.is_sequential();
  for (const auto& entry : given.entries) {
    const auto& value = entry.value;
    if (entry.key == "name") {
      item.name = {checked_name(value, "name"), value.pos};
    } else if (entry.key == "inputs") {
      item.inputs = read_names(value, "inputs");
    } else if (entry.key == "call") {
      if (!value.is_map() && !value.is_null())
        fail_at(value.pos, ExitCode::kConfig, "call must be a mapping of keyword arguments, found {}", describe(value));
      item.call = value;
    } else if (item.is_shared() && entry.key == "layer") {
      item.shared = {value.as_text("layer"), value.pos};
    } else if (item.is_repeat() && entry.key == "times") {
      item.times = value.as_int("times");
      if (item.times < 1) fail_at(value.pos, ExitCode::kConfig, "times must be positive, found {}", item.times);
    } else if (!is_block) {
      add_entry(item.arguments, entry.key, value, entry.pos);
    }
  }
  if (item.is_repeat() && given.find("times") == nullptr)
    fail_at(item.pos, ExitCode::kConfig,
            "Repeat needs 'times', as in Repeat: {{name: block, times: 12, layers: [...]}}");
  if (item.is_shared() && item.shared.text.empty())
    fail_at(item.pos, ExitCode::kConfig, "Shared needs 'layer', the name of the layer to apply again");
  if (is_block && item.inputs.size() > 1)
    fail_at(item.inputs[1].pos, ExitCode::kConfig, "{} takes one input, found {}", item.type, item.inputs.size());
  if (is_block) item.items = read_items(given.find("layers"), item.pos, item.type);
  return item;
}

/// Default names as Keras makes them: dense, dense_1, ...; a Shared is named after its layer: embedding_1, embedding_2.
void make_names(std::vector<Item>& items) {
  std::map<std::string, int> made;
  for (auto& item : items) {
    if (item.is_shared()) {
      const auto base = item.shared.text.substr(item.shared.text.rfind('/') + 1);
      const auto k = ++made["Shared " + base];
      if (item.name.text.empty()) item.name = {fmt::format("{}_{}", base, k), item.pos};
    } else if (item.name.text.empty()) {
      const auto base = snake_case(item.type);
      const auto k = made[base]++;
      item.name = {k == 0 ? base : fmt::format("{}_{}", base, k), item.pos};
    }
  }
}

Node names_node(const std::vector<Name>& names) {
  Node list;
  list.kind = Node::Kind::kSequence;
  for (const auto& name : names) list.items.push_back(text_node(name.text));
  return list;
}

}  // namespace

std::vector<Name> read_names(const Node& node, const std::string& what) {
  std::vector<Name> names;
  if (node.is_scalar()) return {{node.as_text(what), node.pos}};
  if (!node.is_sequence() || node.items.empty())
    fail_at(node.pos, ExitCode::kConfig, "{} must be a list of names, found {}", what,
            node.is_sequence() ? "an empty one" : describe(node));
  for (const auto& item : node.items) names.push_back({item.as_text("a name in " + what), item.pos});
  return names;
}

std::vector<Item> read_items(const Node* node, const SourcePos& pos, const std::string& what) {
  if (node == nullptr) fail_at(pos, ExitCode::kConfig, "{} needs 'layers'", what);
  if (!node->is_sequence() || node->items.empty())
    fail_at(node->pos, ExitCode::kConfig, "layers of {} must be a list of layers, found {}", what,
            node->is_sequence() ? "an empty one" : describe(*node));
  std::vector<Item> items;
  for (const auto& item : node->items) items.push_back(read_item(item));
  make_names(items);
  return items;
}

Node items_node(const std::vector<Item>& items) {
  Node list;
  list.kind = Node::Kind::kSequence;
  for (const auto& item : items) {
    Node arguments;
    add_entry(arguments, "name", text_node(item.name.text));
    if (item.is_repeat()) add_entry(arguments, "times", int_node(item.times));
    if (item.is_shared()) add_entry(arguments, "layer", text_node(item.shared.text));
    for (const auto& entry : item.arguments.entries) add_entry(arguments, entry.key, entry.value);
    if (!item.inputs.empty()) add_entry(arguments, "inputs", names_node(item.inputs));
    if (!item.call.is_null()) add_entry(arguments, "call", item.call);
    if (!item.items.empty()) add_entry(arguments, "layers", items_node(item.items));
    Node layer;
    add_entry(layer, item.type, std::move(arguments));
    list.items.push_back(std::move(layer));
  }
  return list;
}

}  // namespace tessera::config
