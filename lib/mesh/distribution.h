#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/spec.h"
#include "mesh/layout.h"
#include "mesh/layout_map.h"

namespace tessera::mesh {

/// Keras's DataParallel or ModelParallel over a mesh of `ranks`: everything that the YAML says about where things lie.
struct Distribution {
  DeviceMesh mesh;
  std::vector<Axis> batch_axes;                         // ordered; empty: the batch is not split
  LayoutMap layout_map;                                 // variables
  std::map<std::string, LayoutRule> output_layout_map;  // by layer
  std::map<std::string, LayoutRule> data_layout_map;    // by input
  bool unmatched_rules_warn = false;
  int zero_stage = 0;

  std::int64_t batch_shards() const { return mesh.size(batch_axes); }
};

/// Throws Error (config) with the place: the errors of DeviceMesh, unknown or repeated axes, an unknown batch_dim_name,
/// a mesh with several axes under DataParallel.
Distribution make_distribution(const config::DistributionSpec& spec, std::int64_t ranks);

/// What the layout map says of one variable, checked: rank, axes, divisibility (Error (config), naming variable,
/// dimension, axis, legal sizes; `if_indivisible: replicate` is the way out). No rule: replicated. Axes of size 1 are
/// dropped, the axes of a dimension come in variable order: others in mesh order, then the batch axes.
Layout variable_layout(const Distribution& distribution, const std::string& path, const Shape& shape);

/// The layout of an input: data_layout_map, or the batch axes on dimension 0. Activation order.
Layout input_layout(const Distribution& distribution, const std::string& name, const Shape& shape);

/// What output_layout_map says of a layer's output, checked like a variable; nullopt: no rule. Activation order.
std::optional<Layout> output_layout(const Distribution& distribution, const std::string& layer, const Shape& shape);

/// Every rule must match a variable (layer, input), else Error (config) naming the nearest paths, or a warning that is
/// returned if unmatched_rules is warn. Where a rule matches nothing but would as a search, the sentence prints
/// `.*rule.*`.
std::vector<std::string> check_rules(const Distribution& distribution, const std::vector<std::string>& variable_paths,
                                     const std::vector<std::string>& layers, const std::vector<std::string>& inputs);

/// Axes, major to minor: batch axes first, then mesh order; and the reverse for variables: others, then the batch axes.
std::vector<Axis> activation_order(const DeviceMesh& mesh, const std::vector<Axis>& batch_axes);
std::vector<Axis> variable_order(const DeviceMesh& mesh, const std::vector<Axis>& batch_axes);

}  // namespace tessera::mesh
