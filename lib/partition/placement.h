#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mesh/layout.h"

namespace tessera::partition {

/// Where a tensor lies on one mesh axis: a dimension 0, 1, ... (split), or one of the two below.
using Place = std::int8_t;
inline constexpr Place kReplicated = -1;
inline constexpr Place kPartial = -2;

/// A place for each mesh axis; unused entries are kReplicated.
using Placement = std::array<Place, mesh::kMaxAxes>;

/// kReplicated on every axis.
constexpr Placement replicated_placement() {
  Placement placement{};
  placement.fill(kReplicated);
  return placement;
}

/// Canonical orders of the axes, major to minor: activations have the batch axes first, variables have them last.
enum class Order : std::uint8_t { kActivation, kVariable };

/// The layout of a placement: within a dimension the axes come in the given order.
mesh::Layout to_layout(const Placement& placement, const std::vector<mesh::Axis>& order, std::size_t rank);

/// Where each axis lies; the order within a dimension is lost.
Placement to_placement(const mesh::Layout& layout);

}  // namespace tessera::partition
