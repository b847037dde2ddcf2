#include "mesh/layout_map.h"

#include <algorithm>

#include <re2/re2.h>

#include "core/text.h"

namespace tessera::mesh {
namespace {

const re2::RE2& as_regex(const std::shared_ptr<const void>& pattern) {
  return *static_cast<const re2::RE2*>(pattern.get());
}

std::shared_ptr<const void> compile(const LayoutRule& rule) {
  auto pattern = std::make_shared<re2::RE2>(rule.key, re2::RE2::Quiet);
  if (!pattern->ok())
    fail_at(rule.key_pos, ExitCode::kConfig, "layout_map rule '{}' is not a regular expression (RE2): {}", rule.key,
            pattern->error());
  return pattern;
}

}  // namespace

void LayoutMap::insert(LayoutRule rule) {
  for (const auto& r : rules_)
    if (r.key == rule.key)
      fail_at(rule.key_pos, ExitCode::kConfig, "layout_map has the rule '{}' twice; remove one", rule.key);
  patterns_.push_back(compile(rule));
  rules_.push_back(std::move(rule));
}

void LayoutMap::erase(const std::string& key) {
  const auto it = std::find_if(rules_.begin(), rules_.end(), [&](const LayoutRule& r) { return r.key == key; });
  if (it == rules_.end()) fail(ExitCode::kConfig, "layout_map has no rule '{}' that could be removed", key);
  patterns_.erase(patterns_.begin() + (it - rules_.begin()));
  rules_.erase(it);
}

const LayoutRule* LayoutMap::find(const std::string& path) const {
  std::vector<const LayoutRule*> found;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].key == path) return &rules_[i];
    if (matches(i, path)) found.push_back(&rules_[i]);
  }
  if (found.empty()) return nullptr;
  if (found.size() > 1) {
    std::vector<std::string> names;
    names.reserve(found.size());
    for (const auto* rule : found)
      names.push_back(rule->key_pos.line == 0 ? fmt::format("'{}'", rule->key)
                                              : fmt::format("'{}' (line {})", rule->key, rule->key_pos.line));
    fail_at(found.back()->key_pos, ExitCode::kConfig,
            "{} layout_map rules match '{}': {}; let one match, or write '{}' itself as a rule", found.size(), path,
            join(names, " and "), path);
  }
  return found.front();
}

bool LayoutMap::matches(std::size_t rule, const std::string& path) const {
  return rules_[rule].key == path || re2::RE2::FullMatch(path, as_regex(patterns_[rule]));
}

bool LayoutMap::matches_as_search(std::size_t rule, const std::string& path) const {
  return re2::RE2::PartialMatch(path, as_regex(patterns_[rule]));
}

}  // namespace tessera::mesh
