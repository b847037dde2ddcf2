#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "config/fields.h"
#include "core/text.h"

namespace tessera::layers {

/// "; did you mean 'x'?" for a name near to one of `names`, else "; known: " and the ones of `shown`.
inline std::string known_names(const std::string& name, const std::vector<std::string>& names,
                               const std::vector<std::string>& shown) {
  auto hint = did_you_mean(name, names);
  return hint.empty() ? "; known: " + join(shown) : hint;
}

/// The classes of one kind, by name. A Class has `name`, `aliases` and `fields`.
template <typename Class>
class Registry {
 public:
  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  const std::string& kind() const { return kind_; }
  const std::vector<Class>& classes() const { return classes_; }

  const Class* find(const std::string& name) const {
    for (const auto& c : classes_)
      if (c.name == name || std::ranges::find(c.aliases, name) != c.aliases.end()) return &c;
    return nullptr;
  }

  /// Error (config) at `pos` with the nearest name, or all of them.
  const Class& get(const std::string& name, const SourcePos& pos) const {
    if (const Class* found = find(name)) return *found;
    std::vector<std::string> shown;
    for (const auto& c : classes_) shown.push_back(c.name);
    auto names = shown;
    for (const auto& c : classes_) names.insert(names.end(), c.aliases.begin(), c.aliases.end());
    fail_at(pos, ExitCode::kConfig, "there is no {} '{}'{}", kind_, name, known_names(name, names, shown));
  }

 protected:
  void insert(Class c) {
    TESSERA_CHECK(find(c.name) == nullptr, "two {}s are named '{}'", kind_, c.name);
    classes_.push_back(std::move(c));
  }

 private:
  std::string kind_;
  std::vector<Class> classes_;
};

/// An argument that Keras has and that may only be left out, be null or have its default.
template <typename C>
config::Field<C> unsupported(const std::string& name, const std::string& only = "null") {
  config::FieldDoc doc{name, only, only, false, "only " + only};
  return {std::move(doc), config::parse(only, "default"),
          [only](const config::Node& node, const std::string& what, C&) {
            if (node.is_null() || config::to_yaml_line(node) == only) return;
            fail_at(node.pos, ExitCode::kConfig, "{} is not supported, only {}; leave it out", what, only);
          }};
}

/// A field that is read as it is written, with the type that the docs show.
template <typename C>
config::Field<C> documented(config::Field<C> field, const std::string& type) {
  field.doc.type = type;
  return field;
}

/// A class's own fields, then those of its base class that it does not state anew.
template <typename C, typename Base>
std::vector<config::Field<C>> with_base(const std::vector<config::Field<Base>>& base,
                                        std::vector<config::Field<C>> own) {
  std::vector<config::Field<C>> all = own;
  for (const auto& f : base) {
    const bool overridden = std::ranges::any_of(own, [&](const auto& o) { return o.doc.name == f.doc.name; });
    if (!overridden) all.push_back(config::Field<C>(f));
  }
  return all;
}

}  // namespace tessera::layers
