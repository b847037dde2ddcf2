#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/layer_items.h"
#include "config/spec.h"

namespace tessera::config {

/// Turns blocks into a flat list of layers and names into paths. A name is looked up from the innermost block outwards
/// and means what stands above; inside a block `input` is what the block is applied to; a block's name means its last
/// layer.
class Unfolding {
 public:
  /// Appends to model.layers; the inputs must be there.
  explicit Unfolding(ModelSpec& model);

  /// Returns the path of the last layer.
  std::string unfold_model(const std::vector<Item>& items);

  /// The layer or model input that a name means to a layer in `scope` ("" or "block_0/").
  std::string look_up(const Name& name, const std::string& scope) const;

 private:
  /// What a name means: the path that it stands for, and the layer or input whose tensor that is.
  struct Meaning {
    std::string path, output;
  };
  Meaning meaning(const Name& name, std::string scope) const;
  const std::string& block_input(const Name& name, const std::string& scope) const;
  std::vector<std::string> visible(std::string scope) const;
  bool is_input(const std::string& name) const;

  void declare(const std::string& path, const Name& name);
  void declare_all(const std::vector<Item>& items, const std::string& scope);
  std::vector<std::string> inputs_of(const Item& item, const std::string& scope,
                                     const std::optional<std::string>& previous) const;
  std::string unfold(const std::vector<Item>& items, const std::string& scope, std::optional<std::string> previous);
  void add_layer(const Item& item, const std::string& path, const std::string& scope, std::vector<std::string> inputs);
  std::string shared_layer(const Name& name, const std::string& scope) const;

  ModelSpec& model_;
  std::map<std::string, SourcePos> declared_;        // every path of the model
  std::map<std::string, std::string> outputs_;       // those that stand above -> whose tensor it is
  std::map<std::string, std::string> block_inputs_;  // by scope
  std::set<std::string> shareable_;
  std::size_t argument_nodes_ = 0;
};

}  // namespace tessera::config
