#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "partition/hardware.h"
#include "partition/placement.h"
#include "partition/reshard.h"

namespace tessera::partition {

/// One way to compute an op on the whole mesh.
struct Strategy {
  /// A collective inside the op's lowering.
  struct Inner {
    bool backward = false;
    bool ring = false;  // else an all-reduce
    std::vector<mesh::Axis> axes;
    double bytes = 0;  // all-reduce: of the local tensor; ring: that a rank receives
  };
  /// For each axis the factor that is split over it, 0 if none; `~`, `P` and the names of lowerings stand in `labels`.
  std::array<char, mesh::kMaxAxes> factor{};
  std::vector<std::string> labels;  // an axis each, for prints
  std::vector<Placement> operands, cotangents;
  Placement result, result_cotangent;
  std::int64_t cost_fs = 0;  // node cost; edges come on top
  double flops = 0;          // local, forward and backward
  std::vector<Inner> inner;
};

/// A vertex that the solver sees: a graph node, or the hub behind a tensor that several read or that is pinned.
struct SolverNode {
  int graph_node = -1;  // of a hub: the node whose result it hands on
  bool hub = false;
  std::vector<int> args;  // solver nodes
  Order order = Order::kActivation;
  bool needs_cotangent = false;
  int batch_dim = -1;
  bool variable = false;    // a variable or its hub
  std::vector<bool> reads;  // by operand: whether the backward pass reads it
};

/// What the solver is asked.
struct SolverInput {
  const graph::Graph* graph = nullptr;
  const mesh::DeviceMesh* mesh = nullptr;
  std::vector<mesh::Axis> batch_axes;
  const Hardware* hardware = nullptr;
  bool training = true;  // false: nothing has a cotangent
  /// By graph node of the sources: value, gradient and slot layouts (an input has only the first). Canonical order.
  struct SourceLayouts {
    Placement value, gradient, slots;
    bool in_layout_map = false;  // counts for "an axis that no layout mentions"
  };
  std::map<int, SourceLayouts> sources;
  /// Pinned results, by graph node.
  std::map<int, Placement> pins;
  std::int64_t table_limit = std::int64_t{1} << 22;
  /// Price of a saved byte in femtoseconds, for memory; 0: fastest.
  double saved_byte_fs = 0;
};

struct Assignment {
  std::vector<SolverNode> nodes;
  std::vector<std::shared_ptr<const Strategy>> chosen;  // by solver node
  std::int64_t time_fs = 0;
  std::int64_t penalty = 0;  // variables that leave their place on an axis that does not split the batch
  double saved_byte_fs = 0;  // the price of memory at which it is the cheapest
  std::vector<mesh::Axis> idle_axes;
  std::vector<std::string> warnings;
  std::string how;                          // "joint, largest table 120" or "axis by axis, ..."
  std::int64_t joint_table = 0, table = 0;  // entries of the largest: predicted for all axes together, and used

  /// The layouts on both ends of an edge, in their orders.
  mesh::Layout result_layout(int node) const;            // of a node's result
  mesh::Layout result_cotangent_layout(int node) const;  // of its cotangent
  mesh::Layout operand_layout(int node, int k) const;    // as the op reads it
  mesh::Layout cotangent_layout(int node, int k) const;  // as the op writes operand k's cotangent
  std::vector<mesh::Axis> activation_order, variable_order;
  const graph::Graph* graph = nullptr;
};

/// The cheapest assignment; exact where the tables allow it. Throws Error (config) naming the op where none is legal.
Assignment solve(const SolverInput& input);

/// The fastest assignment whose peak(assignment), in bytes, is at most `limit`; if none is, the one of least memory.
/// `peak` finds the real one, by lowering and liveness; it is asked at most ten times.
struct Within {
  Assignment assignment;
  bool fits = false;
};
Within solve_within(const SolverInput& input, std::int64_t limit,
                    const std::function<std::int64_t(const Assignment&)>& peak);

/// The best assignment in which an edge has another pair of layouts, against the best one.
struct Alternative {
  bool legal = false;  // false: there is none
  std::int64_t more_fs = 0, more_penalty = 0;
  /// "dense_2/bias_add with m over model instead of -: reduce_scatter over model; backward all_gather over model; 17.6
  /// us more"
  std::string sentence;
};

/// By solver node and operand: the alternative to each edge of an assignment that solve() or solve_within() found for
/// this input. Exact where the assignment is; else the best of changes on one axis.
std::vector<std::vector<Alternative>> alternatives(const SolverInput& input, const Assignment& assignment);

/// Whether the backward pass reads operand k of a solver node (only for cotangents that somebody needs).
bool reads_operand(const Assignment& assignment, int node, int k);

/// The moves of an edge: forward of operand k, and backward of its cotangent.
std::vector<Move> forward_moves(const SolverInput& input, const Assignment& assignment, int node, int k);
std::vector<Move> backward_moves(const SolverInput& input, const Assignment& assignment, int node, int k);

}  // namespace tessera::partition
