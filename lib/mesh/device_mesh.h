#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::mesh {

/// Index of a mesh axis in DeviceMesh::axis_names.
using Axis = int;

/// At most this many axes; placements are fixed-size arrays of them.
inline constexpr int kMaxAxes = 8;

/// Ranks in a grid, row-major: the last axis changes fastest (Keras DeviceMesh).
class DeviceMesh {
 public:
  /// One size may be -1: it is filled so that the product is `ranks`. Throws Error (config) as Keras does for an empty
  /// shape, for names and sizes of different number, and for a product that is not `ranks`; also for a repeated name, a
  /// size < 1 and a second -1. The sentence says which -np would fit.
  DeviceMesh(std::vector<std::int64_t> shape, std::vector<std::string> axis_names, std::int64_t ranks);

  /// A mesh of one rank without axes.
  DeviceMesh() = default;

  int axis_count() const { return static_cast<int>(shape_.size()); }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  const std::vector<std::string>& axis_names() const { return names_; }
  std::int64_t size(Axis axis) const { return shape_[static_cast<std::size_t>(axis)]; }
  /// Product of the sizes of some axes.
  std::int64_t size(const std::vector<Axis>& axes) const;
  std::int64_t ranks() const;

  /// Coordinates of a rank, one an axis.
  std::vector<std::int64_t> coordinates(std::int64_t rank) const;
  std::int64_t rank_at(const std::vector<std::int64_t>& coordinates) const;

  /// Position of a coordinate in an ordered list of axes, major to minor.
  std::int64_t index(const std::vector<std::int64_t>& coordinates, const std::vector<Axis>& axes) const;

  /// Ranks that differ from `rank` only on `axes`, in the order of the list (major to minor).
  std::vector<std::int64_t> group(std::int64_t rank, const std::vector<Axis>& axes) const;

  /// -1 if there is no such axis.
  Axis find(const std::string& name) const;

  bool operator==(const DeviceMesh&) const = default;

 private:
  std::vector<std::int64_t> shape_;
  std::vector<std::string> names_;
};

/// "(batch 2, model 4)"
std::string to_string(const DeviceMesh& mesh);

}  // namespace tessera::mesh
