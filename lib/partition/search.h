#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "partition/edge.h"
#include "partition/elimination.h"
#include "partition/problem.h"
#include "partition/strategy.h"

namespace tessera::partition {

/// Finds the cheapest strategies of a problem: exactly, all axes together, while the largest table stays below the
/// limit; else one axis after another. Keeps strategies and tables for further searches that differ little.
class Search {
 public:
  /// Nothing is split over `idle` axes; over `quiet` ones nothing is communicated but gradients.
  Search(const SolverInput& input, const Problem& problem, const CostModel& cost, const StrategyMaker& maker,
         MoveCache& moves, AxisSet idle, AxisSet quiet);

  struct Result {
    Cost cost = 0;                                        // with the price of memory
    Cost unpriced = 0;                                    // without
    std::vector<std::shared_ptr<const Strategy>> chosen;  // by vertex
    std::string how;
    double joint_table = 0, table = 0;
    std::vector<Combination> combinations;  // by vertex; empty if all axes were solved together
  };
  /// Throws Error (config) naming the op where none is legal.
  Result run(double saved_byte_fs);

  /// The best that has another pair of layouts on an edge, and the strategies of its ends.
  struct EdgeAlternative {
    Cost cost = kForbidden;
    std::shared_ptr<const Strategy> from, to;
  };
  /// For every edge of the problem. Exact where run() is; else the best of changes on one axis.
  std::vector<EdgeAlternative> alternatives(double saved_byte_fs);

 private:
  /// Strategies of one kind of vertex to choose from.
  struct Set {
    int id = 0, kind = 0;
    std::vector<Combination> combinations;
    std::vector<std::shared_ptr<const Strategy>> strategies;
    TablePtr costs;
  };
  struct Kind {
    const Vertex* example = nullptr;
    std::vector<AxisOption> options;
    Choices choices;
    std::vector<Combination> all;  // all axes together; cut off above most_strategies_
  };
  /// The best choice on one axis, all others as they were.
  struct Step {
    Cost cost = 0;
    double table = 0;
    std::vector<Combination> next;
    std::vector<std::shared_ptr<const Strategy>> chosen;
  };

  Cost unpriced(const Result& result) const;
  void set_price(double saved_byte_fs);
  const Set& make_set(int kind, const std::vector<Combination>& combinations, const std::vector<int>& key);
  const Set& joint_set(int kind);
  const Set& axis_set(int kind, const Combination& current, mesh::Axis axis);
  const EliminationOrder& order_of(const std::vector<int>& cardinalities);
  std::vector<TablePtr> unary_tables(const std::vector<const Set*>& sets) const;
  std::vector<Factor> pair_tables(const std::vector<const Set*>& sets);
  void improve_alternatives(const std::vector<const Set*>& sets, const Result& result,
                            std::vector<EdgeAlternative>& alternatives);
  TablePtr edge_table(const Edge& edge, const Set& from, const Set& to);
  std::vector<int> cardinalities_of(const std::vector<const Set*>& sets) const;
  std::vector<const Set*> joint_sets();
  std::vector<const Set*> axis_sets(const std::vector<Combination>& current, mesh::Axis axis);
  std::vector<mesh::Axis> free_axes(bool of_batch) const;
  Result run_joint(const EliminationOrder& order);
  Result run_by_axis();
  const Step& improve(const std::vector<Combination>& current, mesh::Axis axis);
  std::vector<Combination> start() const;
  [[noreturn]] void fail_at_vertex(const Vertex& vertex) const;

  const SolverInput& input_;
  const Problem& problem_;
  const CostModel& cost_;
  const StrategyMaker& maker_;
  MoveCache& moves_;
  AxisSet quiet_ = 0;
  /// An op with more makes a table above the limit with its neighbour.
  std::size_t most_strategies_ = 0;
  double saved_byte_fs_ = 0;
  std::string impossible_;  // an edge without any legal pair of layouts
  std::vector<Kind> kinds_;
  std::optional<EdgePricer> pricer_;
  std::optional<Eliminator> eliminator_;
  std::map<std::vector<int>, EliminationOrder> orders_;
  std::map<std::pair<mesh::Axis, std::vector<Combination>>, Step> steps_;  // sweeps in other orders meet again
  std::map<std::vector<int>, Set> sets_;
  std::map<std::tuple<int, int, int>, TablePtr> edge_tables_;
};

}  // namespace tessera::partition
