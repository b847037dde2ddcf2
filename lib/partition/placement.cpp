#include "partition/placement.h"

#include "core/error.h"

namespace tessera::partition {

mesh::Layout to_layout(const Placement& placement, const std::vector<mesh::Axis>& order, std::size_t rank) {
  auto layout = mesh::replicated(rank);
  for (const auto axis : order) {
    const auto place = placement[static_cast<std::size_t>(axis)];
    if (place < 0) continue;
    TESSERA_CHECK(static_cast<std::size_t>(place) < rank, "axis {} splits dimension {} of a tensor of rank {}", axis,
                  place, rank);
    layout.dims[static_cast<std::size_t>(place)].push_back(axis);
  }
  for (mesh::Axis axis = 0; axis < static_cast<int>(order.size()); ++axis)
    if (placement[static_cast<std::size_t>(axis)] == kPartial) layout.partial.push_back(axis);
  return layout;
}

Placement to_placement(const mesh::Layout& layout) {
  auto placement = replicated_placement();
  for (std::size_t d = 0; d < layout.dims.size(); ++d)
    for (const auto axis : layout.dims[d]) placement[static_cast<std::size_t>(axis)] = static_cast<Place>(d);
  for (const auto axis : layout.partial) placement[static_cast<std::size_t>(axis)] = kPartial;
  return placement;
}

}  // namespace tessera::partition
