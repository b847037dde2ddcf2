#pragma once

#include <utility>
#include <vector>

namespace tessera::partition {

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

}  // namespace tessera::partition
