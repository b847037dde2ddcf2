#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "partition/problem.h"
#include "partition/strategy.h"

namespace tessera::partition {

/// What the moves of an edge may do. A value becomes a sum only where it is added, a cotangent only at its hub; scalars
/// may be padded.
struct EdgeRights {
  bool forward_pad = false, forward_zero = false, backward_partial = false;
};
EdgeRights edge_rights(const graph::Graph& graph, const SolverNode& from, const SolverNode& to);

/// Moves by pair of placements, each pair planned once. nullptr: forbidden.
class MoveCache {
 public:
  MoveCache(const mesh::DeviceMesh& mesh, const StrategyMaker& maker) : mesh_(mesh), maker_(maker) {}

  const std::vector<Move>* find(const Placement& from, Order from_order, const Placement& to, Order to_order,
                                std::size_t rank, bool pad, bool zero);

 private:
  struct Key {
    Placement from, to;
    std::uint32_t rest = 0;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  const mesh::DeviceMesh& mesh_;
  const StrategyMaker& maker_;
  std::unordered_map<Key, std::unique_ptr<const std::vector<Move>>, Hash> moves_;
};

/// The prices of the edges between two vertices, for all pairs of their strategies.
class EdgePricer {
 public:
  EdgePricer(const SolverInput& input, const Problem& problem, const CostModel& cost, const StrategyMaker& maker,
             MoveCache& moves, AxisSet quiet, double saved_byte_fs);

  /// Row-major: the strategies of edge.from, then those of edge.to. Forward, what the backward pass repeats, and the
  /// dual.
  std::vector<Cost> prices(const Edge& edge, const std::vector<std::shared_ptr<const Strategy>>& from,
                           const std::vector<std::shared_ptr<const Strategy>>& to);

 private:
  Cost forward(const Edge& edge, const Placement& from, const Placement& to);
  Cost backward(const Edge& edge, const Placement& from, const Placement& to);
  double saved_bytes(const Edge& edge, const std::vector<Move>& moves, const Placement& operand) const;
  int penalties(const Vertex& variable, const Placement& from, const Placement& to) const;
  bool is_quiet(const std::vector<Move>& moves) const;
  const Vertex& vertex(int id) const { return problem_.vertices[static_cast<std::size_t>(id)]; }

  const SolverInput& input_;
  const Problem& problem_;
  const CostModel& cost_;
  const StrategyMaker& maker_;
  MoveCache& moves_;
  AxisSet quiet_ = 0, batch_ = 0;
  double saved_byte_fs_ = 0;
};

}  // namespace tessera::partition
