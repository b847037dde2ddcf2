#include "mesh/distribution.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/placed.h"
#include "core/text.h"

namespace tessera::mesh {
namespace {

using config::DistributionSpec;

DeviceMesh make_mesh(const DistributionSpec& spec, std::int64_t ranks) {
  return placed(spec.mesh_pos, [&] { return DeviceMesh(spec.mesh_shape, spec.axis_names, ranks); });
}

Axis find_axis(const DeviceMesh& mesh, const std::string& name, const SourcePos& pos, const std::string& what) {
  const auto axis = mesh.find(name);
  if (axis < 0)
    fail_at(pos, ExitCode::kConfig, "{}: the mesh has no axis '{}'{} (axes: {})", what, name,
            did_you_mean(name, mesh.axis_names()), join(mesh.axis_names()));
  return axis;
}

std::vector<Axis> batch_axes_of(const DistributionSpec& spec, const DeviceMesh& mesh) {
  if (!spec.has_batch_dim_name) return {0};
  std::vector<Axis> axes;
  for (const auto& name : spec.batch_dim_names) {
    const auto axis = find_axis(mesh, name, spec.batch_dim_name_pos, "batch_dim_name");
    if (std::find(axes.begin(), axes.end(), axis) != axes.end())
      fail_at(spec.batch_dim_name_pos, ExitCode::kConfig, "batch_dim_name has the axis '{}' twice; remove one", name);
    axes.push_back(axis);
  }
  return axes;
}

LayoutRule make_rule(const config::LayoutSpec& spec, const DeviceMesh& mesh, const std::string& map) {
  LayoutRule rule{spec.key, {}, spec.replicate_if_indivisible, spec.pos, spec.key_pos};
  const auto what = fmt::format("{} rule '{}'", map, spec.key);
  std::vector<bool> used(static_cast<std::size_t>(mesh.axis_count()));
  for (const auto& names : spec.dims) {
    auto& axes = rule.dims.emplace_back();
    for (const auto& name : names) {
      axes.push_back(find_axis(mesh, name, spec.pos, what));
      if (used[static_cast<std::size_t>(axes.back())])
        fail_at(spec.pos, ExitCode::kConfig, "{} uses the axis '{}' twice; an axis can split one dimension", what,
                name);
      used[static_cast<std::size_t>(axes.back())] = true;
    }
  }
  return rule;
}

std::map<std::string, LayoutRule> make_rules(const std::vector<config::LayoutSpec>& specs, const DeviceMesh& mesh,
                                             const std::string& map) {
  std::map<std::string, LayoutRule> rules;
  for (const auto& spec : specs)
    if (!rules.emplace(spec.key, make_rule(spec, mesh, map)).second)
      fail_at(spec.key_pos, ExitCode::kConfig, "{} has the rule '{}' twice; remove one", map, spec.key);
  return rules;
}

// "1, 2, 4, 8": the divisors of n; of very many the first ones and n.
std::string divisors(std::int64_t n) {
  constexpr std::size_t kMost = 16;
  std::vector<std::int64_t> small, large;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    small.push_back(d);
    if (d != n / d) large.push_back(n / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  if (small.size() <= kMost) return fmt::format("{}", fmt::join(small, ", "));
  return fmt::format("{}, ..., {}", fmt::join(small.begin(), small.begin() + kMost - 1, ", "), n);
}

std::string axes_text(const std::vector<Axis>& axes, const DeviceMesh& mesh) {
  std::vector<std::string> parts;
  parts.reserve(axes.size());
  for (const auto axis : axes)
    parts.push_back(fmt::format("'{}' ({})", mesh.axis_names()[static_cast<std::size_t>(axis)], mesh.size(axis)));
  return fmt::format("{} {}", axes.size() == 1 ? "axis" : "axes", join(parts, " x "));
}

// A rule applied to a tensor, with the axes of each dimension in the canonical `order`.
Layout apply(const LayoutRule& rule, const DeviceMesh& mesh, const std::vector<Axis>& order, const std::string& name,
             const Shape& shape, const std::string& what) {
  if (rule.dims.size() != shape.size())
    fail_at(rule.pos, ExitCode::kConfig,
            "{} '{}' has {} {}, but {} {} has {}: write one entry a dimension, null where it is not split", what,
            rule.key, rule.dims.size(), rule.dims.size() == 1 ? "entry" : "entries", name, tessera::to_string(shape),
            shape.size());
  auto layout = replicated(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    auto& axes = layout.dims[d];
    for (const auto axis : order)
      if (mesh.size(axis) > 1 && std::find(rule.dims[d].begin(), rule.dims[d].end(), axis) != rule.dims[d].end())
        axes.push_back(axis);
    if (shape[d] % mesh.size(axes) == 0) continue;
    if (!rule.replicate_if_indivisible)
      fail_at(rule.pos, ExitCode::kConfig, "{} {}: dimension {} ({}) does not divide over {}; legal sizes: {}", name,
              tessera::to_string(shape), d, shape[d], axes_text(axes, mesh), divisors(shape[d]));
    axes.clear();
  }
  return layout;
}

// "; did you mean 'x'?", or what there is.
std::string hint(const std::string& key, const std::vector<std::string>& known, const std::string& kind) {
  constexpr std::size_t kMost = 8;
  if (auto text = did_you_mean(key, known); !text.empty()) return text;
  if (known.empty()) return fmt::format("; there are no {}s", kind);
  const std::vector<std::string> some(known.begin(),
                                      known.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, known.size())));
  return fmt::format("; {}s: {}{}", kind, join(some), known.size() > kMost ? ", ..." : "");
}

std::string in_place(const SourcePos& pos, const std::string& sentence) {
  const auto place = to_string(pos);
  return place.empty() ? sentence : place + ": " + sentence;
}

// "": the rule matches a variable.
std::string why_unmatched(const LayoutMap& map, std::size_t index, const std::vector<std::string>& paths) {
  const auto& rule = map.rules()[index];
  const auto any = [&](auto&& test) { return std::find_if(paths.begin(), paths.end(), test); };
  if (any([&](const std::string& path) { return map.matches(index, path); }) != paths.end()) return "";
  const auto found = any([&](const std::string& path) { return map.matches_as_search(index, path); });
  if (found == paths.end())
    return in_place(rule.key_pos, fmt::format("layout_map rule '{}' matches no variable{}", rule.key,
                                              hint(rule.key, paths, "variable")));
  const auto either = rule.key.find('|') != std::string::npos;
  return in_place(rule.key_pos,
                  fmt::format("layout_map rule '{}' matches no variable: a rule must match the whole path, and it "
                              "matches only a part of '{}'; write '.*{}.*'",
                              rule.key, *found, either ? "(" + rule.key + ")" : rule.key));
}

void add_unknown(std::vector<std::string>& sentences, const std::map<std::string, LayoutRule>& rules,
                 const std::string& map, const std::vector<std::string>& known, const std::string& kind) {
  for (const auto& [key, rule] : rules)
    if (std::find(known.begin(), known.end(), key) == known.end())
      sentences.push_back(
          in_place(rule.key_pos, fmt::format("{} rule '{}' names no {}{}", map, key, kind, hint(key, known, kind))));
}

Distribution data_parallel(const DistributionSpec& spec, std::int64_t ranks) {
  if (spec.has_batch_dim_name || !spec.layout_map.empty() || !spec.output_layout_map.empty() ||
      !spec.data_layout_map.empty())
    fail_at(spec.pos, ExitCode::kConfig,
            "DataParallel replicates every variable and splits the batch over all ranks: layout rules and "
            "batch_dim_name need ModelParallel");
  Distribution d;
  d.mesh = spec.has_mesh ? make_mesh(spec, ranks) : DeviceMesh({ranks}, {"batch"}, ranks);
  if (d.mesh.axis_count() > 1)
    fail_at(spec.mesh_pos, ExitCode::kConfig,
            "DataParallel takes a mesh of one axis, and {} has {}; use ModelParallel, with batch_dim_name: {}",
            to_string(d.mesh), d.mesh.axis_count(), d.mesh.axis_names()[0]);
  d.batch_axes = {0};
  return d;
}

Distribution model_parallel(const DistributionSpec& spec, std::int64_t ranks) {
  if (!spec.has_mesh)
    fail_at(spec.pos, ExitCode::kConfig,
            "ModelParallel needs a mesh, as in mesh: {{shape: [2, -1], axis_names: [batch, model]}}");
  Distribution d;
  d.mesh = make_mesh(spec, ranks);
  d.batch_axes = batch_axes_of(spec, d.mesh);
  for (const auto& rule : spec.layout_map) d.layout_map.insert(make_rule(rule, d.mesh, "layout_map"));
  d.output_layout_map = make_rules(spec.output_layout_map, d.mesh, "output_layout_map");
  d.data_layout_map = make_rules(spec.data_layout_map, d.mesh, "data_layout_map");
  return d;
}

}  // namespace

Distribution make_distribution(const DistributionSpec& spec, std::int64_t ranks) {
  auto d = spec.strategy == DistributionSpec::Strategy::kDataParallel ? data_parallel(spec, ranks)
                                                                      : model_parallel(spec, ranks);
  d.unmatched_rules_warn = spec.unmatched_rules_warn;
  d.zero_stage = spec.zero_stage;
  return d;
}

Layout variable_layout(const Distribution& distribution, const std::string& path, const Shape& shape) {
  const auto* rule = distribution.layout_map.find(path);
  if (rule == nullptr) return replicated(shape.size());
  return apply(*rule, distribution.mesh, variable_order(distribution.mesh, distribution.batch_axes), path, shape,
               "layout_map rule");
}

Layout input_layout(const Distribution& distribution, const std::string& name, const Shape& shape) {
  TESSERA_CHECK(!shape.empty(), "input '{}' has no batch dimension", name);
  const auto order = activation_order(distribution.mesh, distribution.batch_axes);
  if (const auto it = distribution.data_layout_map.find(name); it != distribution.data_layout_map.end())
    return apply(it->second, distribution.mesh, order, fmt::format("input {}", name), shape, "data_layout_map rule");
  LayoutRule batch{name, std::vector<std::vector<Axis>>(shape.size()), false, {}, {}};
  batch.dims[0] = distribution.batch_axes;
  return apply(batch, distribution.mesh, order, fmt::format("input {}", name), shape, "batch axes of");
}

std::optional<Layout> output_layout(const Distribution& distribution, const std::string& layer, const Shape& shape) {
  const auto it = distribution.output_layout_map.find(layer);
  if (it == distribution.output_layout_map.end()) return std::nullopt;
  return apply(it->second, distribution.mesh, activation_order(distribution.mesh, distribution.batch_axes),
               fmt::format("output of {}", layer), shape, "output_layout_map rule");
}

std::vector<std::string> check_rules(const Distribution& distribution, const std::vector<std::string>& variable_paths,
                                     const std::vector<std::string>& layers, const std::vector<std::string>& inputs) {
  std::vector<std::string> sentences;
  for (std::size_t i = 0; i < distribution.layout_map.size(); ++i)
    if (auto why = why_unmatched(distribution.layout_map, i, variable_paths); !why.empty())
      sentences.push_back(std::move(why));
  add_unknown(sentences, distribution.output_layout_map, "output_layout_map", layers, "layer");
  add_unknown(sentences, distribution.data_layout_map, "data_layout_map", inputs, "input");
  if (!sentences.empty() && !distribution.unmatched_rules_warn) throw Error(ExitCode::kConfig, join(sentences, "\n"));
  return sentences;
}

std::vector<Axis> activation_order(const DeviceMesh& mesh, const std::vector<Axis>& batch_axes) {
  auto order = batch_axes;
  for (Axis axis = 0; axis < mesh.axis_count(); ++axis)
    if (std::find(batch_axes.begin(), batch_axes.end(), axis) == batch_axes.end()) order.push_back(axis);
  return order;
}

std::vector<Axis> variable_order(const DeviceMesh& mesh, const std::vector<Axis>& batch_axes) {
  auto order = activation_order(mesh, batch_axes);
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(batch_axes.size()), order.end());
  return order;
}

}  // namespace tessera::mesh
