#pragma once

#include <string>
#include <vector>

#include "core/shape.h"
#include "mesh/device_mesh.h"

namespace tessera::mesh {

/// How a tensor lies on a mesh. For each dimension the axes that split it, major to minor; on the axes of `partial`
/// every rank holds a summand; on all others the tensor is replicated.
///
/// Worked example, mesh (batch 2, model 4), tensor (128, 4096): dims {{0}, {1}} gives the rank at (1, 2) rows 64..127
/// and columns 2048..3071; dims {{0}, {}} with partial {1}: rows 64..127, all columns, to be summed over model.
struct Layout {
  std::vector<std::vector<Axis>> dims;
  std::vector<Axis> partial;  // ascending

  bool operator==(const Layout&) const = default;
  auto operator<=>(const Layout&) const = default;
};

/// A layout without any axis for a tensor of this rank.
Layout replicated(std::size_t rank);

/// "[batch, (data, model)] partial {model}", null for an unsplit dimension: "[null, model]".
std::string to_string(const Layout& layout, const DeviceMesh& mesh);

/// The boxes of the global tensor that the rank at `coordinates` holds. Today always one. This is the one function that
/// divides a dimension: initialiser, loader, Philox, reshard, checkpoint, predict and prints call it.
std::vector<Box> owned(const Layout& layout, const DeviceMesh& mesh, const std::vector<std::int64_t>& coordinates,
                       const Shape& shape);

/// The shape that every rank holds. Throws (internal) where require_even would.
Shape local_shape(const Layout& layout, const DeviceMesh& mesh, const Shape& shape);

/// Elements [first, first + count) of a local part, row-major.
struct Share {
  std::int64_t first = 0, count = 0;
};

/// Ranks that hold the same part of a tensor divide it: the share of one of them, so that all ranks together have every
/// element once and none has over its equal part, rounded up. The tensor has no partial axes.
Share share_of_replica(const Layout& layout, const DeviceMesh& mesh, const std::vector<std::int64_t>& coordinates,
                       const Shape& shape);
/// The largest share of any rank.
std::int64_t largest_share(const Layout& layout, const DeviceMesh& mesh, const Shape& shape);

/// Whether the layout has the shape's rank and each dimension divides over its axes.
bool is_even(const Layout& layout, const DeviceMesh& mesh, const Shape& shape);

/// Throws (internal) unless is_even: what the user can get wrong is reported when rules are read (variable_layout).
void require_even(const Layout& layout, const DeviceMesh& mesh, const Shape& shape);

}  // namespace tessera::mesh
