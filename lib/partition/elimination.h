#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "partition/cost.h"

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

/// A vertex and those that a table with it depends on when its turn comes.
struct Elimination {
  int vertex = -1;
  std::vector<int> neighbours;  // ascending
};

struct EliminationOrder {
  std::vector<Elimination> steps;
  double largest_table = 1, entries = 0;
};

/// Smallest table first, then least fill, then the lowest index. `cardinalities`: choices of each vertex; those with
/// one choice bind nobody.
EliminationOrder elimination_order(const std::vector<int>& cardinalities,
                                   const std::vector<std::pair<int, int>>& pairs);

/// Exact minimisation of a sum of tables. Keeps the result of each elimination step by the identity of its input
/// tables: the inside of equal blocks is computed once, and a second call with one changed table computes only what
/// depends on it.
class Eliminator {
 public:
  TablePtr make_table(std::vector<int> dims, std::vector<Cost> values);

  struct Result {
    Cost cost = 0;
    std::vector<int> choice;  // by vertex
  };
  /// unary: a table a vertex. Ties go to the lowest index.
  Result minimise(const std::vector<TablePtr>& unary, const std::vector<Factor>& pairs, const EliminationOrder& order);

 private:
  struct Message {
    std::vector<TablePtr> inputs;  // kept alive, as their ids are the key
    TablePtr least;
    std::vector<std::int32_t> best;  // the eliminated vertex's choice
  };
  using Key = std::vector<std::int64_t>;
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };

  const Message& eliminate(const Elimination& step, const std::vector<Factor>& factors,
                           const std::vector<TablePtr>& unary);

  std::int64_t next_id_ = 0;
  std::unordered_map<Key, Message, Hash> messages_;
};

}  // namespace tessera::partition
