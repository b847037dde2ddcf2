#include "partition/layouts.h"

namespace tessera::partition {
namespace {

bool mentions_axes(const Placement& placement) {
  for (const auto p : placement)
    if (p != kReplicated) return true;
  return false;
}

/// Ops keep the batch on the batch axes, so a layer's output can't lie otherwise.
void require_batch_on_its_axes(const mesh::LayoutRule& rule, const graph::Node& node, const Placement& placement,
                               const mesh::Distribution& distribution) {
  if (node.batch_dim < 0) return;
  for (const auto axis : distribution.batch_axes)
    if (distribution.mesh.size(axis) > 1 && placement[static_cast<std::size_t>(axis)] != node.batch_dim)
      fail_at(
          rule.pos, ExitCode::kConfig,
          "output_layout_map rule '{}' does not split dimension {}, the batch, over axis '{}', but that axis splits "
          "the batch; add it there",
          rule.key, node.batch_dim, distribution.mesh.axis_names()[static_cast<std::size_t>(axis)]);
}

}  // namespace

SolverInput::SourceLayouts variable_layouts(const mesh::Distribution& distribution, const std::string& path,
                                            const Shape& shape) {
  const auto& mesh = distribution.mesh;
  const auto layout = mesh::variable_layout(distribution, path, shape);
  const auto value = to_placement(layout);
  auto wide = value;
  std::vector<mesh::Axis> free;
  for (const auto a : distribution.batch_axes)
    if (value[static_cast<std::size_t>(a)] == kReplicated && mesh.size(a) > 1) free.push_back(a);
  if (distribution.zero_stage > 0 && !free.empty()) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] % (mesh.size(layout.dims[d]) * mesh.size(free)) != 0) continue;
      for (const auto a : free) wide[static_cast<std::size_t>(a)] = static_cast<Place>(d);
      break;
    }
  }
  SolverInput::SourceLayouts out;
  out.value = distribution.zero_stage >= 3 ? wide : value;
  out.gradient = wide;
  out.slots = wide;
  out.in_layout_map = mentions_axes(value);
  return out;
}

void set_main_sources(SolverInput& input, const mesh::Distribution& distribution) {
  for (const auto& node : input.graph->nodes()) {
    if (node.kind == graph::NodeKind::kInput) {
      const auto value = to_placement(mesh::input_layout(distribution, node.name, node.shape()));
      input.sources[node.id] = {value, replicated_placement(), replicated_placement(), mentions_axes(value)};
    } else if (node.kind == graph::NodeKind::kVariable) {
      if (node.variable->role == graph::VariableRole::kWeight)
        input.sources[node.id] = variable_layouts(distribution, node.name, node.shape());
      else
        input.sources[node.id] = {replicated_placement(), replicated_placement(), replicated_placement(), false};
    }
  }
}

void pin_layer_outputs(SolverInput& input, const mesh::Distribution& distribution,
                       const std::map<std::string, int>& layer_outputs) {
  std::map<int, std::string> pinned_by;  // node -> layer
  for (const auto& [layer, node] : layer_outputs) {
    const auto layout = mesh::output_layout(distribution, layer, input.graph->node(node).shape());
    if (!layout) continue;
    const auto placement = to_placement(*layout);
    const auto& rule = distribution.output_layout_map.at(layer);
    require_batch_on_its_axes(rule, input.graph->node(node), placement, distribution);
    const auto [pin, is_new] = input.pins.emplace(node, placement);
    if (!is_new && pin->second != placement)
      fail_at(rule.pos, ExitCode::kConfig,
              "output_layout_map rules '{}' and '{}' lay one tensor out in two ways: where one of the layers changes "
              "nothing, as Dropout outside of training, they share their output; write one rule, or the same twice",
              pinned_by.at(node), layer);
    pinned_by.emplace(node, layer);
  }
}

void set_update_sources(SolverInput& input, const std::map<std::string, SolverInput::SourceLayouts>& weights,
                        const std::vector<graph::GraphOutput>& outputs) {
  for (const auto& node : input.graph->nodes()) {
    if (node.kind != graph::NodeKind::kVariable) continue;
    SolverInput::SourceLayouts layouts{replicated_placement(), replicated_placement(), replicated_placement(), false};
    const auto& v = *node.variable;
    if (v.role == graph::VariableRole::kWeight) layouts.value = weights.at(v.path).value;
    if (v.role == graph::VariableRole::kGradient) layouts.value = weights.at(v.weight).gradient;
    if (v.role == graph::VariableRole::kSlot) layouts.value = weights.at(v.weight).slots;
    layouts.in_layout_map = mentions_axes(layouts.value);
    input.sources[node.id] = layouts;
  }
  for (const auto& output : outputs)
    if (output.kind == graph::GraphOutput::Kind::kAssign && weights.contains(output.name))
      input.pins[output.node] = weights.at(output.name).slots;
}

}  // namespace tessera::partition
