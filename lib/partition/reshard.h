#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mesh/layout.h"

namespace tessera::partition {

enum class MoveKind : std::uint8_t {
  kSlice,
  kReduceScatter,
  kAllToAll,
  kAllReduce,
  kPad,
  kAllGather,
  kZero,
  kBoxExchange
};

std::string to_string(MoveKind kind);

/// Slice, pad and zero: nothing is communicated.
bool is_local(MoveKind kind);

/// One step from a layout to the next. `axes` major to minor. from_dim, to_dim: -1 where there is none.
struct Move {
  MoveKind kind = MoveKind::kSlice;
  std::vector<mesh::Axis> axes;
  int from_dim = -1, to_dim = -1;
  mesh::Layout before, after;
  /// Of a box exchange: the largest share of the global tensor that a rank receives.
  double moved_fraction = 0;

  bool operator==(const Move&) const = default;
};

/// The moves from one layout to another: always the first legal one of slice, reduce-scatter, all-to-all, all-reduce,
/// pad, all-gather, zero; stuck: all-reduce what is partial, then a box exchange. Neighbours of one kind are fused on
/// the merged axes. `pad` allows S -> P, `zero` R -> P. Empty result: nothing to do; nullopt: forbidden. Layouts hold
/// no axis of size 1.
std::optional<std::vector<Move>> reshard(const mesh::DeviceMesh& mesh, const mesh::Layout& from, const mesh::Layout& to,
                                         bool pad, bool zero);

/// Index of the first move that the backward pass repeats when the operand is saved: the all-gathers at the end, or a
/// box exchange that enlarges. The tensor is saved just before it. moves.size(): nothing is repeated.
std::size_t first_repeated(const mesh::DeviceMesh& mesh, const std::vector<Move>& moves);

/// Into how many parts a layout splits a tensor.
std::int64_t shards(const mesh::DeviceMesh& mesh, const mesh::Layout& layout);

/// Bytes that a rank receives, for a tensor of `bytes` globally.
std::int64_t moved_bytes(const mesh::DeviceMesh& mesh, const Move& move, std::int64_t bytes);

}  // namespace tessera::partition
