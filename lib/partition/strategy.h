#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "partition/assignment.h"
#include "partition/cost.h"
#include "partition/problem.h"

namespace tessera::partition {

/// What an op may do on one axis: a placement for every tensor that it touches.
struct AxisOption {
  std::string label;  // "-", a factor, "~", "P" or "P0", the name of a lowering
  std::vector<Place> operands, cotangents;
  Place result = kReplicated, result_cotangent = kReplicated;
  char divides = 0;  // factor whose work is divided
  bool extra = false;
};

/// The options of an op, generated from its factors by one duality: a tensor that has the split factor is split and so
/// is its cotangent; an operand that lacks it is whole and its cotangent a sum; a reduced factor leaves a sum with a
/// whole cotangent. Option 0 is "-", nothing split.
std::vector<AxisOption> axis_options(const Vertex& vertex);

/// An option for each axis, by index.
using Combination = std::array<std::uint8_t, mesh::kMaxAxes>;
/// For each axis the options to choose from.
using Choices = std::array<std::vector<std::uint8_t>, mesh::kMaxAxes>;
/// A set of axes, a bit each.
using AxisSet = std::uint32_t;
constexpr bool contains(AxisSet set, mesh::Axis axis) { return (set >> axis & 1U) != 0; }

/// Makes the strategies of ops on one mesh.
class StrategyMaker {
 public:
  StrategyMaker(const SolverInput& input, const CostModel& cost);

  /// Axes of size 1 or in `idle` stay unsplit; the batch is pinned on the batch axes where the op has it; nothing is
  /// communicated inside the op over `quiet` axes; a pinned result lies as it is pinned.
  Choices choices(const Vertex& vertex, const std::vector<AxisOption>& options, AxisSet idle, AxisSet quiet) const;

  /// All combinations that divide, in ascending order; stops above `limit`.
  std::vector<Combination> combinations(const Vertex& vertex, const std::vector<AxisOption>& options,
                                        const Choices& choices, std::size_t limit) const;

  Strategy make(const Vertex& vertex, const std::vector<AxisOption>& options, const Combination& combination) const;

  /// Part of a tensor that a rank holds.
  double local_share(const Placement& placement) const;

  const std::vector<mesh::Axis>& order(Order order) const {
    return order == Order::kActivation ? activation_ : variable_;
  }

 private:
  Strategy make_source(const Vertex& vertex) const;
  void price(const Vertex& vertex, const std::vector<AxisOption>& options, const Combination& combination,
             Strategy& strategy) const;
  std::int64_t price_collectives(const Vertex& vertex, const std::map<char, double>& local, Strategy& strategy) const;
  std::int64_t price_rings(const Vertex& vertex, const std::vector<double>& operand_bytes, Strategy& strategy) const;
  bool divides(const Vertex& vertex, const std::vector<AxisOption>& options, const Combination& combination,
               const std::vector<mesh::Axis>& axes) const;

  const mesh::DeviceMesh& mesh_;
  const CostModel& cost_;
  AxisSet batch_ = 0;
  std::vector<mesh::Axis> activation_, variable_;
};

}  // namespace tessera::partition
