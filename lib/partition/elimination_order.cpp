#include "partition/elimination_order.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <tuple>

namespace tessera::partition {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// With more neighbours a table has over 2^40 entries: no tie is broken by fill.
constexpr std::size_t kMostToCount = 40;

// Vertices that share a table, and the key by which the next one is taken.
class Neighbourhood {
 public:
  Neighbourhood(const std::vector<int>& cardinalities, const std::vector<std::pair<int, int>>& pairs)
      : cards_(cardinalities), adjacent_(cardinalities.size()), keys_(cardinalities.size()) {
    for (const auto& [a, b] : pairs)
      if (cards_[at(a)] > 1 && cards_[at(b)] > 1 && a != b) join(a, b);
    for (int v = 0; v < static_cast<int>(cards_.size()); ++v) queue_.insert(keys_[at(v)] = key(v));
  }

  EliminationOrder eliminate_all() {
    EliminationOrder order;
    while (!queue_.empty()) {
      const auto [table, fill, v] = *queue_.begin();
      queue_.erase(queue_.begin());
      const auto neighbours = adjacent_[at(v)];
      order.steps.push_back({v, neighbours});
      order.largest_table = std::max(order.largest_table, table);
      order.entries += table;
      remove(v, neighbours);
    }
    return order;
  }

 private:
  using Key = std::tuple<double, std::int64_t, int>;

  bool adjacent(int a, int b) const { return std::binary_search(adjacent_[at(a)].begin(), adjacent_[at(a)].end(), b); }

  bool join(int a, int b) {
    if (adjacent(a, b)) return false;
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      auto& list = adjacent_[at(from)];
      list.insert(std::lower_bound(list.begin(), list.end(), to), to);
    }
    return true;
  }

  Key key(int v) const {
    const auto& list = adjacent_[at(v)];
    double table = cards_[at(v)];
    for (const auto u : list) table *= cards_[at(u)];
    std::int64_t fill = 0;
    if (list.size() <= kMostToCount)
      for (std::size_t i = 0; i < list.size(); ++i)
        for (std::size_t j = i + 1; j < list.size(); ++j) fill += !adjacent(list[i], list[j]);
    return {table, fill, v};
  }

  void remove(int v, const std::vector<int>& neighbours) {
    for (const auto u : neighbours) std::erase(adjacent_[at(u)], v);
    std::set<int> changed(neighbours.begin(), neighbours.end());
    for (std::size_t i = 0; i < neighbours.size(); ++i)
      for (std::size_t j = i + 1; j < neighbours.size(); ++j)
        if (join(neighbours[i], neighbours[j]))  // the fill of those adjacent to both falls
          std::set_intersection(adjacent_[at(neighbours[i])].begin(), adjacent_[at(neighbours[i])].end(),
                                adjacent_[at(neighbours[j])].begin(), adjacent_[at(neighbours[j])].end(),
                                std::inserter(changed, changed.end()));
    for (const auto u : changed) {
      queue_.erase(keys_[at(u)]);
      queue_.insert(keys_[at(u)] = key(u));
    }
  }

  const std::vector<int>& cards_;
  std::vector<std::vector<int>> adjacent_;
  std::vector<Key> keys_;
  std::set<Key> queue_;
};

}  // namespace

EliminationOrder elimination_order(const std::vector<int>& cardinalities,
                                   const std::vector<std::pair<int, int>>& pairs) {
  return Neighbourhood(cardinalities, pairs).eliminate_all();
}

}  // namespace tessera::partition
