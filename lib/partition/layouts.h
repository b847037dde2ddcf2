#pragma once

#include <map>
#include <string>

#include "mesh/distribution.h"
#include "partition/assignment.h"

namespace tessera::partition {

/// Value, gradient and slots of a variable. zero_stage adds the batch axes, on the first dimension that divides, to the
/// slots (1), the gradient (2) and the value (3). In stage 1 the gradient is accumulated as a partial sum and reduced
/// once, straight to the slots' layout, so its final layout is theirs too.
SolverInput::SourceLayouts variable_layouts(const mesh::Distribution& distribution, const std::string& path,
                                            const Shape& shape);

/// Sources of a model's main graph.
void set_main_sources(SolverInput& input, const mesh::Distribution& distribution);

/// What output_layout_map says of the nodes that stand for layers' outputs. Throws Error (config) where a rule takes
/// the batch off its axes, or two rules lay the same node out in different ways.
void pin_layer_outputs(SolverInput& input, const mesh::Distribution& distribution,
                       const std::map<std::string, int>& layer_outputs);

/// Sources of an update graph, from the weights' layouts; every assigned weight is pinned to its slots' layout.
void set_update_sources(SolverInput& input, const std::map<std::string, SolverInput::SourceLayouts>& weights,
                        const std::vector<graph::GraphOutput>& outputs);

}  // namespace tessera::partition
