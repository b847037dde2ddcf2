#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "partition/cost.h"
#include "partition/elimination_order.h"

namespace tessera::partition {

/// Costs by the choices of the vertices in a scope, row-major. Its id is its identity: equal ids, equal contents.
struct Table {
  std::int64_t id = 0;
  std::vector<int> dims;
  std::vector<Cost> values;
};
using TablePtr = std::shared_ptr<const Table>;

/// A table over some vertices, in the order of its dimensions.
struct Factor {
  std::vector<int> scope;
  TablePtr table;
};

/// Exact minimisation of a sum of tables: one over each vertex and some over pairs. Ties go to the lowest index. Keeps
/// the result of each elimination step by the identity of its input tables: the inside of equal blocks is computed
/// once, and a second call with a changed table computes only what depends on it.
class Eliminator {
 public:
  TablePtr make_table(std::vector<int> dims, std::vector<Cost> values);

  struct Result {
    Cost cost = 0;
    std::vector<int> choice;  // by vertex
  };
  Result minimise(const std::vector<TablePtr>& unary, const std::vector<Factor>& pairs, const EliminationOrder& order);

  /// The best choice in which a pair's entry is not excluded.
  struct PairAlternative {
    Cost cost = kForbidden;
    int first = 0, second = 0;  // the pair's choices
  };
  /// For every pair, in one pass up and one down (min-marginals).
  std::vector<PairAlternative> alternatives(
      const std::vector<TablePtr>& unary, const std::vector<Factor>& pairs, const EliminationOrder& order,
      const std::function<bool(std::size_t pair, int first, int second)>& excluded);

 private:
  struct Message {
    std::vector<TablePtr> inputs;    // kept alive, as their ids are the key
    TablePtr least;                  // by the neighbours' choices
    std::vector<std::int32_t> best;  // the eliminated vertex's choice
  };
  using Key = std::vector<std::int64_t>;
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  /// All steps done: vertices' and pairs' factors, then the messages.
  struct Pass {
    std::vector<Factor> factors;
    std::vector<int> maker;              // by factor: the step whose message it is, or -1
    std::vector<std::vector<int>> used;  // by step: its factors
    std::vector<const Message*> messages;
    Cost cost = 0;
  };

  Pass eliminate_all(const std::vector<TablePtr>& unary, const std::vector<Factor>& pairs,
                     const EliminationOrder& order);
  const Message& eliminate(const Elimination& step, const std::vector<const Factor*>& factors,
                           const std::vector<TablePtr>& unary);

  std::int64_t next_id_ = 0;
  std::unordered_map<Key, Message, Hash> messages_;
};

}  // namespace tessera::partition
