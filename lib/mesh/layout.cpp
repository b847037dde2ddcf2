#include "mesh/layout.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"

namespace tessera::mesh {
namespace {

std::vector<std::string> names_of(const std::vector<Axis>& axes, const DeviceMesh& mesh) {
  std::vector<std::string> names;
  names.reserve(axes.size());
  for (const auto axis : axes) names.push_back(mesh.axis_names()[static_cast<std::size_t>(axis)]);
  return names;
}

// "model", "(batch, model)" or "null".
std::string dim_text(const std::vector<Axis>& axes, const DeviceMesh& mesh) {
  if (axes.empty()) return "null";
  const auto names = names_of(axes, mesh);
  return axes.size() == 1 ? names[0] : fmt::format("({})", fmt::join(names, ", "));
}

// Those that neither split the tensor nor sum it.
std::vector<Axis> unused_axes(const Layout& layout, const DeviceMesh& mesh) {
  std::vector<bool> used(static_cast<std::size_t>(mesh.axis_count()), false);
  for (const auto& axes : layout.dims)
    for (const auto axis : axes) used[static_cast<std::size_t>(axis)] = true;
  for (const auto axis : layout.partial) used[static_cast<std::size_t>(axis)] = true;
  std::vector<Axis> unused;
  for (Axis axis = 0; axis < mesh.axis_count(); ++axis)
    if (!used[static_cast<std::size_t>(axis)]) unused.push_back(axis);
  return unused;
}

}  // namespace

Layout replicated(std::size_t rank) { return {std::vector<std::vector<Axis>>(rank), {}}; }

std::string to_string(const Layout& layout, const DeviceMesh& mesh) {
  std::vector<std::string> parts;
  for (const auto& axes : layout.dims) parts.push_back(dim_text(axes, mesh));
  auto text = fmt::format("[{}]", fmt::join(parts, ", "));
  if (!layout.partial.empty()) text += fmt::format(" partial {{{}}}", fmt::join(names_of(layout.partial, mesh), ", "));
  return text;
}

bool is_even(const Layout& layout, const DeviceMesh& mesh, const Shape& shape) {
  if (layout.dims.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] % mesh.size(layout.dims[d]) != 0) return false;
  return true;
}

void require_even(const Layout& layout, const DeviceMesh& mesh, const Shape& shape) {
  TESSERA_CHECK(is_even(layout, mesh, shape), "{} as {} on mesh {} in equal parts", tessera::to_string(shape),
                to_string(layout, mesh), to_string(mesh));
}

std::vector<Box> owned(const Layout& layout, const DeviceMesh& mesh, const std::vector<std::int64_t>& coordinates,
                       const Shape& shape) {
  Box box{Shape(shape.size()), local_shape(layout, mesh, shape)};
  for (std::size_t d = 0; d < shape.size(); ++d) box.start[d] = mesh.index(coordinates, layout.dims[d]) * box.size[d];
  return {box};
}

std::int64_t largest_share(const Layout& layout, const DeviceMesh& mesh, const Shape& shape) {
  const auto local = elements(local_shape(layout, mesh, shape));
  const auto replicas = mesh.size(unused_axes(layout, mesh));
  return (local + replicas - 1) / replicas;
}

Share share_of_replica(const Layout& layout, const DeviceMesh& mesh, const std::vector<std::int64_t>& coordinates,
                       const Shape& shape) {
  TESSERA_CHECK(layout.partial.empty(), "shares of a partial tensor");
  const auto local = elements(local_shape(layout, mesh, shape));
  const auto each = largest_share(layout, mesh, shape);
  const auto first = std::min(local, each * mesh.index(coordinates, unused_axes(layout, mesh)));
  return {first, std::min(each, local - first)};
}

Shape local_shape(const Layout& layout, const DeviceMesh& mesh, const Shape& shape) {
  require_even(layout, mesh, shape);
  auto local = shape;
  for (std::size_t d = 0; d < shape.size(); ++d) local[d] /= mesh.size(layout.dims[d]);
  return local;
}

}  // namespace tessera::mesh
