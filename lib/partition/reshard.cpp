#include "partition/reshard.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "partition/placement.h"

namespace tessera::partition {
namespace {

using mesh::Axis;
using mesh::DeviceMesh;
using mesh::Layout;

// Slices shrink for free, so they come before what communicates; an all-reduce comes after every move that shrinks.
constexpr MoveKind kPriority[] = {MoveKind::kSlice, MoveKind::kReduceScatter, MoveKind::kAllToAll, MoveKind::kAllReduce,
                                  MoveKind::kPad,   MoveKind::kAllGather,     MoveKind::kZero};

std::vector<Axis>& axes_of(Layout& layout, Place dim) { return layout.dims[static_cast<std::size_t>(dim)]; }
const std::vector<Axis>& axes_of(const Layout& layout, Place dim) { return layout.dims[static_cast<std::size_t>(dim)]; }

std::vector<Axis> all_split_axes(const Layout& layout) {
  std::vector<Axis> axes;
  for (const auto& dim : layout.dims) axes.insert(axes.end(), dim.begin(), dim.end());
  return axes;
}

// Walks from one layout to another, a move at a time.
class Walk {
 public:
  Walk(const DeviceMesh& mesh, const Layout& from, const Layout& to)
      : mesh_(mesh), now_(from), goal_(to), at_(to_placement(from)), end_(to_placement(to)) {}

  const Layout& now() const { return now_; }

  bool step(std::vector<Move>& moves) {
    const auto n = mesh_.axis_count();
    for (const auto kind : kPriority)
      for (Axis i = 0; i < n; ++i) {
        const auto axis = kind == MoveKind::kAllGather ? n - 1 - i : i;  // the minor-most axis is gathered first
        if (auto axes = legal(kind, axis); !axes.empty()) {
          const auto to = end(axes.front());
          moves.push_back(apply(kind, std::move(axes), to));
          return true;
        }
      }
    return false;
  }

  /// What no move reaches: sums first, then every rank sends to every other what that one needs.
  void box_exchange(std::vector<Move>& moves) {
    for (const auto axis : std::vector<Axis>(now_.partial))
      if (end(axis) != kPartial) moves.push_back(apply(MoveKind::kAllReduce, {axis}, kReplicated));
    Move move;
    move.kind = MoveKind::kBoxExchange;
    move.before = now_;
    move.after = goal_;
    for (Axis axis = 0; axis < mesh_.axis_count(); ++axis)
      if (at(axis) >= 0 || end(axis) >= 0) move.axes.push_back(axis);
    move.moved_fraction = largest_share_moved();
    now_ = goal_;
    moves.push_back(std::move(move));
  }

 private:
  Place at(Axis axis) const { return at_[static_cast<std::size_t>(axis)]; }
  Place end(Axis axis) const { return end_[static_cast<std::size_t>(axis)]; }

  /// Whether the axes of dimension `dim`, followed by `more`, begin as the goal's do.
  bool joins(Place dim, const std::vector<Axis>& more) const {
    const auto& have = axes_of(now_, dim);
    const auto& want = axes_of(goal_, dim);
    return have.size() + more.size() <= want.size() && std::equal(have.begin(), have.end(), want.begin()) &&
           std::equal(more.begin(), more.end(), want.begin() + static_cast<std::ptrdiff_t>(have.size()));
  }

  bool is_last(Axis axis) const { return axes_of(now_, at(axis)).back() == axis; }

  /// The axes that move together, major to minor; empty where the move is not legal.
  std::vector<Axis> legal(MoveKind kind, Axis axis) const {
    const auto from = at(axis);
    const auto to = end(axis);
    if (from == to) return {};
    const auto one_if = [&](bool condition) { return condition ? std::vector<Axis>{axis} : std::vector<Axis>{}; };
    switch (kind) {
      case MoveKind::kSlice:
        return one_if(from == kReplicated && to >= 0 && joins(to, {axis}));
      case MoveKind::kReduceScatter:
        return one_if(from == kPartial && to >= 0 && joins(to, {axis}));
      case MoveKind::kAllReduce:
        return one_if(from == kPartial && to == kReplicated);
      case MoveKind::kPad:
        return one_if(from >= 0 && to == kPartial && is_last(axis));
      case MoveKind::kAllGather:
        return one_if(from >= 0 && to == kReplicated && is_last(axis));
      case MoveKind::kZero:
        return one_if(from == kReplicated && to == kPartial);
      case MoveKind::kAllToAll:
        break;
      case MoveKind::kBoxExchange:
        return {};
    }
    if (from < 0 || to < 0) return {};
    const auto& dim = axes_of(now_, from);
    std::vector<Axis> suffix(std::find(dim.begin(), dim.end(), axis), dim.end());
    const bool together = std::all_of(suffix.begin(), suffix.end(), [&](Axis a) { return end(a) == to; });
    return together && joins(to, suffix) ? suffix : std::vector<Axis>{};
  }

  Move apply(MoveKind kind, std::vector<Axis> axes, Place to) {
    const auto from = at(axes.front());
    Move move;
    move.kind = kind;
    move.axes = axes;
    move.from_dim = std::max<int>(from, -1);
    move.to_dim = std::max<int>(to, -1);
    move.before = now_;
    for (const auto axis : axes) {
      if (from >= 0) std::erase(axes_of(now_, from), axis);
      if (from == kPartial) std::erase(now_.partial, axis);
      if (to >= 0) axes_of(now_, to).push_back(axis);
      if (to == kPartial) now_.partial.insert(std::lower_bound(now_.partial.begin(), now_.partial.end(), axis), axis);
      at_[static_cast<std::size_t>(axis)] = to;
    }
    move.after = now_;
    return move;
  }

  /// The most that a rank lacks of its new box, as a share of the tensor. In integers up to the last division.
  double largest_share_moved() const {
    std::vector<std::size_t> changed;  // other dimensions overlap in the whole of both boxes
    auto axes = std::vector<Axis>{};   // that the overlaps depend on
    for (std::size_t d = 0; d < goal_.dims.size(); ++d) {
      if (now_.dims[d] == goal_.dims[d]) continue;
      changed.push_back(d);
      for (const auto* list : {&now_.dims[d], &goal_.dims[d]})
        for (const auto axis : *list)
          if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
    }
    std::vector<std::int64_t> coordinates(static_cast<std::size_t>(mesh_.axis_count()));
    double least_kept = 1;
    for (std::int64_t i = 0, n = mesh_.size(axes); i < n; ++i) {
      auto rest = i;
      for (const auto axis : axes) {
        coordinates[static_cast<std::size_t>(axis)] = rest % mesh_.size(axis);
        rest /= mesh_.size(axis);
      }
      double kept = 1;
      for (const auto d : changed) {
        const auto nx = mesh_.size(now_.dims[d]), ny = mesh_.size(goal_.dims[d]);
        const auto x = mesh_.index(coordinates, now_.dims[d]), y = mesh_.index(coordinates, goal_.dims[d]);
        const auto overlap = std::min((x + 1) * ny, (y + 1) * nx) - std::max(x * ny, y * nx);
        kept *= static_cast<double>(std::max<std::int64_t>(0, overlap)) / static_cast<double>(nx * ny);
      }
      least_kept = std::min(least_kept, kept);
    }
    double need = 1, unchanged = 1;
    for (std::size_t d = 0; d < goal_.dims.size(); ++d) {
      const auto share = 1 / static_cast<double>(mesh_.size(goal_.dims[d]));
      need *= share;
      if (now_.dims[d] == goal_.dims[d]) unchanged *= share;
    }
    return need - unchanged * least_kept;
  }

  const DeviceMesh& mesh_;
  Layout now_;
  const Layout& goal_;
  Placement at_, end_;
};

bool fuses(const Move& a, const Move& b) {
  return a.kind == b.kind && a.from_dim == b.from_dim && a.to_dim == b.to_dim &&
         (a.kind == MoveKind::kAllReduce || a.kind == MoveKind::kAllGather || a.kind == MoveKind::kReduceScatter);
}

// Neighbours of one kind become one collective on the merged axes. Gathers come minor-most first.
std::vector<Move> fuse(std::vector<Move> moves) {
  std::vector<Move> fused;
  for (auto& move : moves) {
    if (fused.empty() || !fuses(fused.back(), move)) {
      fused.push_back(std::move(move));
      continue;
    }
    auto& last = fused.back();
    const auto where = move.kind == MoveKind::kAllGather ? last.axes.begin() : last.axes.end();
    last.axes.insert(where, move.axes.begin(), move.axes.end());
    last.after = std::move(move.after);
  }
  return fused;
}

}  // namespace

std::optional<std::vector<Move>> reshard(const DeviceMesh& mesh, const Layout& from, const Layout& to, bool pad,
                                         bool zero) {
  TESSERA_CHECK(from.dims.size() == to.dims.size(), "reshard of a tensor of rank {} to rank {}", from.dims.size(),
                to.dims.size());
  const auto at = to_placement(from);
  for (const auto axis : to.partial) {
    const auto place = at[static_cast<std::size_t>(axis)];
    if (place != kPartial && !(place == kReplicated ? zero : pad)) return std::nullopt;
  }
  std::vector<Move> moves;
  Walk walk(mesh, from, to);
  while (walk.step(moves)) {
  }
  if (walk.now() != to) {
    // A dimension that must become a sum but is not the last of its list can't be padded, and no box exchange sums.
    if (std::any_of(to.partial.begin(), to.partial.end(), [&](mesh::Axis axis) {
          return !std::binary_search(walk.now().partial.begin(), walk.now().partial.end(), axis);
        }))
      return std::nullopt;
    walk.box_exchange(moves);
  }
  return fuse(std::move(moves));
}

std::size_t first_repeated(const DeviceMesh& mesh, const std::vector<Move>& moves) {
  const auto repeats = [&](const Move& move) {
    return move.kind == MoveKind::kAllGather ||
           (move.kind == MoveKind::kBoxExchange && shards(mesh, move.after) < shards(mesh, move.before));
  };
  auto first = moves.size();
  while (first > 0 && repeats(moves[first - 1])) --first;
  return first;
}

std::int64_t shards(const DeviceMesh& mesh, const Layout& layout) { return mesh.size(all_split_axes(layout)); }

std::int64_t moved_bytes(const DeviceMesh& mesh, const Move& move, std::int64_t bytes) {
  const auto n = static_cast<double>(mesh.size(move.axes));
  const auto before = 1 / static_cast<double>(shards(mesh, move.before));
  const auto after = 1 / static_cast<double>(shards(mesh, move.after));
  double fraction = 0;
  switch (move.kind) {
    case MoveKind::kSlice:
    case MoveKind::kPad:
    case MoveKind::kZero:
      break;
    case MoveKind::kAllGather:
      fraction = after - before;
      break;
    case MoveKind::kReduceScatter:
      fraction = before - after;
      break;
    case MoveKind::kAllReduce:
      fraction = 2 * (n - 1) / n * before;
      break;
    case MoveKind::kAllToAll:
      fraction = (n - 1) / n * before;
      break;
    case MoveKind::kBoxExchange:
      fraction = move.moved_fraction;
      break;
  }
  return static_cast<std::int64_t>(std::nearbyint(fraction * static_cast<double>(bytes)));
}

std::string to_string(MoveKind kind) {
  switch (kind) {
    case MoveKind::kSlice:
      return "slice";
    case MoveKind::kReduceScatter:
      return "reduce_scatter";
    case MoveKind::kAllToAll:
      return "all_to_all";
    case MoveKind::kAllReduce:
      return "all_reduce";
    case MoveKind::kPad:
      return "pad";
    case MoveKind::kAllGather:
      return "all_gather";
    case MoveKind::kZero:
      return "zero";
    case MoveKind::kBoxExchange:
      return "box_exchange";
  }
  return "";
}

bool is_local(MoveKind kind) { return kind == MoveKind::kSlice || kind == MoveKind::kPad || kind == MoveKind::kZero; }

}  // namespace tessera::partition
