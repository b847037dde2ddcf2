#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/spec.h"
#include "core/error.h"
#include "mesh/device_mesh.h"

namespace tessera::mesh {

/// A rule of the YAML with its axes looked up: for each dimension an ordered list of axes.
struct LayoutRule {
  std::string key;
  std::vector<std::vector<Axis>> dims;
  bool replicate_if_indivisible = false;
  SourcePos pos;      // of the layout
  SourcePos key_pos;  // of the key

  bool operator==(const LayoutRule&) const = default;
};

/// Keras LayoutMap: exact key first, then RE2 full match over all keys; more than one match is an error that names
/// them; none means replicated. The order of the rules means nothing.
class LayoutMap {
 public:
  /// Throws Error (config) for a duplicate key or a bad regular expression, at its place.
  void insert(LayoutRule rule);
  void erase(const std::string& key);
  std::size_t size() const { return rules_.size(); }
  const std::vector<LayoutRule>& rules() const { return rules_; }

  /// nullptr: no rule. Throws Error (config) where several regular expressions match, naming them.
  const LayoutRule* find(const std::string& path) const;

  /// Whether a rule's key is the path or, as a regular expression, matches the whole of it.
  bool matches(std::size_t rule, const std::string& path) const;
  /// Whether it matches somewhere in the path, as Keras before 3.14 did.
  bool matches_as_search(std::size_t rule, const std::string& path) const;

 private:
  std::vector<LayoutRule> rules_;
  std::vector<std::shared_ptr<const void>> patterns_;  // compiled, by rule
};

}  // namespace tessera::mesh
