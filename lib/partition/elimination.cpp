#include "partition/elimination.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
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

// A factor as the innermost loop reads it: the eliminated vertex last.
struct Operand {
  std::vector<Cost> transposed;
  const Cost* values = nullptr;
  std::vector<std::int64_t> strides;  // by neighbour; 0 where the factor doesn't depend on it
};

Operand make_operand(const Factor& factor, const Elimination& step) {
  Operand operand;
  operand.values = factor.table->values.data();
  operand.strides.resize(step.neighbours.size());
  auto scope = factor.scope;
  std::vector<std::int64_t> dims;
  for (const auto dim : factor.table->dims)
    if (dim > 1) dims.push_back(dim);
  if (dims.empty()) dims.push_back(1);
  const auto v = std::find(scope.begin(), scope.end(), step.vertex) - scope.begin();
  if (v + 1 != static_cast<std::ptrdiff_t>(scope.size())) {  // rotate v to the end
    const auto inner = std::accumulate(dims.begin() + v + 1, dims.end(), std::int64_t{1}, std::multiplies<>());
    const auto size = dims[at(static_cast<int>(v))];
    const auto outer = static_cast<std::int64_t>(factor.table->values.size()) / inner / size;
    operand.transposed.resize(factor.table->values.size());
    auto* to = operand.transposed.data();
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t i = 0; i < inner; ++i)
        for (std::int64_t k = 0; k < size; ++k) *to++ = operand.values[(o * size + k) * inner + i];
    std::rotate(scope.begin() + v, scope.begin() + v + 1, scope.end());
    std::rotate(dims.begin() + v, dims.begin() + v + 1, dims.end());
    operand.values = operand.transposed.data();
  }
  std::int64_t stride = dims.back();
  for (std::size_t i = scope.size() - 1; i-- > 0; stride *= dims[i]) {
    const auto n = std::lower_bound(step.neighbours.begin(), step.neighbours.end(), scope[i]) - step.neighbours.begin();
    operand.strides[static_cast<std::size_t>(n)] = stride;
  }
  return operand;
}

}  // namespace

EliminationOrder elimination_order(const std::vector<int>& cardinalities,
                                   const std::vector<std::pair<int, int>>& pairs) {
  return Neighbourhood(cardinalities, pairs).eliminate_all();
}

std::size_t Eliminator::Hash::operator()(const Key& key) const {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const auto x : key) h = (h ^ static_cast<std::uint64_t>(x)) * 0x100000001b3U;
  return static_cast<std::size_t>(h ^ (h >> 32));
}

TablePtr Eliminator::make_table(std::vector<int> dims, std::vector<Cost> values) {
  return std::make_shared<const Table>(Table{next_id_++, std::move(dims), std::move(values)});
}

const Eliminator::Message& Eliminator::eliminate(const Elimination& step, const std::vector<Factor>& factors,
                                                 const std::vector<TablePtr>& unary) {
  const auto position = [&](int u) -> std::int64_t {
    const auto n = std::lower_bound(step.neighbours.begin(), step.neighbours.end(), u);
    return n != step.neighbours.end() && *n == u ? n - step.neighbours.begin() : u == step.vertex ? -1 : -2;
  };
  Key key;
  for (const auto& factor : factors) {
    key.push_back(factor.table->id);
    for (const auto u : factor.scope) key.push_back(position(u));
  }
  const auto [found, is_new] = messages_.try_emplace(std::move(key));
  auto& message = found->second;
  if (!is_new) return message;

  std::vector<Operand> operands;
  for (const auto& factor : factors) {
    operands.push_back(make_operand(factor, step));
    message.inputs.push_back(factor.table);
  }
  std::vector<int> dims;
  std::size_t entries = 1;
  for (const auto u : step.neighbours) {
    dims.push_back(unary[at(u)]->dims[0]);
    entries *= at(dims.back());
  }
  const auto choices = at(unary[at(step.vertex)]->dims[0]);
  std::vector<Cost> least(entries), sums(choices);
  message.best.resize(entries);
  std::vector<int> index(dims.size());
  std::vector<const Cost*> rows;
  rows.reserve(operands.size());
  for (const auto& operand : operands) rows.push_back(operand.values);
  for (std::size_t entry = 0; entry < entries; ++entry) {
    std::copy_n(rows[0], choices, sums.begin());
    for (std::size_t f = 1; f < rows.size(); ++f)
      for (std::size_t k = 0; k < choices; ++k) sums[k] += rows[f][k];
    const auto best = std::min_element(sums.begin(), sums.end());
    least[entry] = *best;
    message.best[entry] = static_cast<std::int32_t>(best - sums.begin());
    for (std::size_t d = dims.size(); d-- > 0;) {  // the next combination of the neighbours' choices
      const bool wraps = ++index[d] == dims[d];
      for (std::size_t f = 0; f < rows.size(); ++f)
        rows[f] += wraps ? -operands[f].strides[d] * (dims[d] - 1) : operands[f].strides[d];
      if (!wraps) break;
      index[d] = 0;
    }
  }
  message.least = make_table(std::move(dims), std::move(least));
  return message;
}

Eliminator::Result Eliminator::minimise(const std::vector<TablePtr>& unary, const std::vector<Factor>& pairs,
                                        const EliminationOrder& order) {
  // A table between two vertices waits at both; the first to go takes it. Nobody waits for a vertex without a choice.
  std::vector<Factor> factors;
  std::vector<std::vector<int>> waiting(unary.size());
  const auto wait = [&](Factor factor) {
    const auto last = factor.scope.back();
    std::erase_if(factor.scope, [&](int u) { return unary[at(u)]->dims[0] == 1; });
    if (factor.scope.empty()) factor.scope = {last};
    for (const auto u : factor.scope) waiting[at(u)].push_back(static_cast<int>(factors.size()));
    factors.push_back(std::move(factor));
  };
  for (int v = 0; v < static_cast<int>(unary.size()); ++v) wait({{v}, unary[at(v)]});
  for (const auto& pair : pairs) wait(pair);

  Result result;
  std::vector<bool> used(factors.size());
  std::vector<const Message*> messages;
  for (const auto& step : order.steps) {
    std::vector<Factor> mine;
    used.resize(factors.size());
    for (const auto f : waiting[at(step.vertex)])
      if (!used[at(f)]) {
        used[at(f)] = true;
        mine.push_back(factors[at(f)]);
      }
    const auto& message = eliminate(step, mine, unary);
    messages.push_back(&message);
    if (step.neighbours.empty())
      result.cost += message.least->values[0];
    else
      wait({step.neighbours, message.least});
  }
  result.choice.resize(unary.size());
  for (std::size_t i = order.steps.size(); i-- > 0;) {
    const auto& step = order.steps[i];
    std::size_t entry = 0;
    for (const auto u : step.neighbours) entry = entry * at(unary[at(u)]->dims[0]) + at(result.choice[at(u)]);
    result.choice[at(step.vertex)] = messages[i]->best[entry];
  }
  return result;
}

}  // namespace tessera::partition
