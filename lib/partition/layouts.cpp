#include "partition/layouts.h"

namespace tessera::partition {
namespace {

Placement everywhere() {
  Placement p;
  p.fill(kReplicated);
  return p;
}

bool mentions_axes(const Placement& placement) {
  for (const auto p : placement)
    if (p != kReplicated) return true;
  return false;
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
      input.sources[node.id] = {value, everywhere(), everywhere(), mentions_axes(value)};
    } else if (node.kind == graph::NodeKind::kVariable) {
      if (node.variable->role == graph::VariableRole::kWeight)
        input.sources[node.id] = variable_layouts(distribution, node.name, node.shape());
      else
        input.sources[node.id] = {everywhere(), everywhere(), everywhere(), false};
    }
  }
  // A layer's output is its last node.
  std::map<std::string, int> last;
  for (const auto& node : input.graph->nodes())
    if (node.kind == graph::NodeKind::kOp && !node.prologue) last[node.layer] = node.id;
  for (const auto& [layer, node] : last)
    if (const auto layout = mesh::output_layout(distribution, layer, input.graph->node(node).shape()))
      input.pins[node] = to_placement(*layout);
}

void set_update_sources(SolverInput& input, const std::map<std::string, SolverInput::SourceLayouts>& weights,
                        const std::vector<graph::GraphOutput>& outputs) {
  for (const auto& node : input.graph->nodes()) {
    if (node.kind != graph::NodeKind::kVariable) continue;
    SolverInput::SourceLayouts layouts{everywhere(), everywhere(), everywhere(), false};
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
