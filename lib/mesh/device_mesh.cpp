#include "mesh/device_mesh.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"

namespace tessera::mesh {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

void check_names(const std::vector<std::int64_t>& shape, const std::vector<std::string>& names) {
  if (shape.empty() || names.empty())
    fail(ExitCode::kConfig,
         "a mesh needs a shape and axis names, as in {{shape: [2, 4], axis_names: [batch, model]}}; {} is empty",
         shape.empty() ? "shape" : "axis_names");
  if (shape.size() != names.size())
    fail(ExitCode::kConfig, "mesh shape {} has {} sizes, but axis_names [{}] has {}; write one name a size",
         shape_text(shape), shape.size(), fmt::join(names, ", "), names.size());
  if (shape.size() > kMaxAxes)
    fail(ExitCode::kConfig, "a mesh of {} axes; at most {} are possible: merge axes that are always used together",
         shape.size(), kMaxAxes);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) fail(ExitCode::kConfig, "mesh axis {} has an empty name; give it one", i);
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      fail(ExitCode::kConfig, "mesh axis '{}' is named twice; axis names must differ", names[i]);
  }
}

// Product of the given sizes. `fill`: where the -1 is, or shape.size().
std::int64_t product_of_given(const std::vector<std::int64_t>& shape, const std::vector<std::string>& names,
                              std::size_t& fill) {
  std::int64_t product = 1;
  fill = shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      if (fill != shape.size())
        fail(ExitCode::kConfig, "mesh shape {} has two -1, axes '{}' and '{}'; only one size can be filled in",
             shape_text(shape), names[fill], names[i]);
      fill = i;
    } else if (shape[i] < 1) {
      fail(ExitCode::kConfig, "mesh axis '{}' has size {}; a size is 1 or more, or -1 to fill it in", names[i],
           shape[i]);
    } else if (shape[i] > std::numeric_limits<std::int32_t>::max() / product) {
      fail(ExitCode::kConfig, "mesh shape {} has more ranks than can be counted", shape_text(shape));
    } else {
      product *= shape[i];
    }
  }
  return product;
}

}  // namespace

DeviceMesh::DeviceMesh(std::vector<std::int64_t> shape, std::vector<std::string> axis_names, std::int64_t ranks)
    : shape_(std::move(shape)), names_(std::move(axis_names)) {
  check_names(shape_, names_);
  std::size_t fill = 0;
  const auto product = product_of_given(shape_, names_, fill);
  if (fill == shape_.size()) {
    if (product != ranks)
      fail(ExitCode::kConfig, "mesh shape {} needs {} {}, but there {} {}: start it with -np {}, or change the shape",
           shape_text(shape_), product, product == 1 ? "rank" : "ranks", ranks == 1 ? "is" : "are", ranks, product);
    return;
  }
  if (ranks < 1 || ranks % product != 0) {
    const auto below = ranks / product * product;
    const auto fits = below > 0 ? fmt::format("{} or {}", below, below + product) : fmt::format("{}", product);
    fail(ExitCode::kConfig,
         "mesh shape {} needs a multiple of {} ranks, but there {} {}: start it with -np {}, or change the shape",
         shape_text(shape_), product, ranks == 1 ? "is" : "are", ranks, fits);
  }
  shape_[fill] = ranks / product;
}

std::int64_t DeviceMesh::size(const std::vector<Axis>& axes) const {
  std::int64_t product = 1;
  for (const auto axis : axes) product *= size(axis);
  return product;
}

std::int64_t DeviceMesh::ranks() const {
  std::int64_t product = 1;
  for (const auto n : shape_) product *= n;
  return product;
}

std::vector<std::int64_t> DeviceMesh::coordinates(std::int64_t rank) const {
  TESSERA_CHECK(rank >= 0 && rank < ranks(), "rank {} on mesh {}", rank, to_string(*this));
  std::vector<std::int64_t> at(shape_.size());
  for (std::size_t a = shape_.size(); a-- > 0; rank /= shape_[a]) at[a] = rank % shape_[a];
  return at;
}

std::int64_t DeviceMesh::rank_at(const std::vector<std::int64_t>& coordinates) const {
  TESSERA_CHECK(coordinates.size() == shape_.size(), "{} coordinates on mesh {}", coordinates.size(), to_string(*this));
  std::int64_t rank = 0;
  for (std::size_t a = 0; a < shape_.size(); ++a) rank = rank * shape_[a] + coordinates[a];
  return rank;
}

std::int64_t DeviceMesh::index(const std::vector<std::int64_t>& coordinates, const std::vector<Axis>& axes) const {
  std::int64_t position = 0;
  for (const auto axis : axes) position = position * size(axis) + coordinates[static_cast<std::size_t>(axis)];
  return position;
}

std::vector<std::int64_t> DeviceMesh::group(std::int64_t rank, const std::vector<Axis>& axes) const {
  auto at = coordinates(rank);
  std::vector<std::int64_t> members(static_cast<std::size_t>(size(axes)));
  for (std::size_t i = 0; i < members.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t a = axes.size(); a-- > 0; rest /= size(axes[a]))
      at[static_cast<std::size_t>(axes[a])] = rest % size(axes[a]);
    members[i] = rank_at(at);
  }
  return members;
}

Axis DeviceMesh::find(const std::string& name) const {
  const auto it = std::find(names_.begin(), names_.end(), name);
  return it == names_.end() ? -1 : static_cast<Axis>(it - names_.begin());
}

std::string to_string(const DeviceMesh& mesh) {
  std::vector<std::string> parts;
  parts.reserve(mesh.shape().size());
  for (int a = 0; a < mesh.axis_count(); ++a)
    parts.push_back(fmt::format("{} {}", mesh.axis_names()[static_cast<std::size_t>(a)], mesh.size(a)));
  return fmt::format("({})", fmt::join(parts, ", "));
}

}  // namespace tessera::mesh
