#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/node.h"

namespace tessera::config {

struct Name {
  std::string text;
  SourcePos pos;
};

/// An entry of `layers` as it is written, its name given or made as Keras does: a layer, or a block of them.
struct Item {
  std::string type;
  SourcePos pos;
  Name name;  // within its block
  std::vector<Name> inputs;
  Node arguments, call;
  Name shared;             // of Shared: the layer that is applied again
  std::int64_t times = 1;  // of Repeat
  std::vector<Item> items;

  bool is_repeat() const { return type == "Repeat"; }
  bool is_sequential() const { return type == "Sequential"; }
  bool is_shared() const { return type == "Shared"; }
};

/// `node`: the list `layers` of `what`, which stands at `pos`; nullptr if it isn't there.
std::vector<Item> read_items(const Node* node, const SourcePos& pos, const std::string& what);

/// The list again, every name filled in.
Node items_node(const std::vector<Item>& items);

/// A list of names, or one name.
std::vector<Name> read_names(const Node& node, const std::string& what);

}  // namespace tessera::config
