#include "partition/elimination.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tessera::partition {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

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

std::vector<int> dims_of(const std::vector<int>& scope, const std::vector<TablePtr>& unary) {
  std::vector<int> dims;
  for (const auto u : scope) dims.push_back(unary[at(u)]->dims[0]);
  return dims;
}

std::size_t size_of(const std::vector<int>& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::size_t{1}, [](std::size_t n, int dim) { return n * at(dim); });
}

// For each combination of the neighbours' choices, in order: the sums of all factors by the vertex's choice.
template <typename Visit>
void for_each_row(const Elimination& step, const std::vector<const Factor*>& factors,
                  const std::vector<TablePtr>& unary, Visit visit) {
  std::vector<Operand> operands;
  for (const auto* factor : factors) operands.push_back(make_operand(*factor, step));
  std::vector<const Cost*> rows;
  rows.reserve(operands.size());
  for (const auto& operand : operands) rows.push_back(operand.values);
  const auto dims = dims_of(step.neighbours, unary);
  std::vector<int> index(dims.size());
  std::vector<Cost> sums(at(unary[at(step.vertex)]->dims[0]));
  for (std::size_t entry = 0, entries = size_of(dims); entry < entries; ++entry) {
    std::copy_n(rows[0], sums.size(), sums.begin());
    for (std::size_t f = 1; f < rows.size(); ++f)
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += rows[f][k];
    visit(entry, sums);
    for (std::size_t d = dims.size(); d-- > 0;) {  // the next combination
      const bool wraps = ++index[d] == dims[d];
      for (std::size_t f = 0; f < rows.size(); ++f)
        rows[f] += wraps ? -operands[f].strides[d] * (dims[d] - 1) : operands[f].strides[d];
      if (!wraps) break;
      index[d] = 0;
    }
  }
}

// The least values of a table over `scope` by the choices of some of its vertices.
std::vector<Cost> least_by(const std::vector<Cost>& table, const std::vector<int>& scope, const std::vector<int>& kept,
                           const std::vector<TablePtr>& unary) {
  const auto dims = dims_of(scope, unary);
  std::vector<std::size_t> strides(scope.size());
  std::size_t size = 1;
  for (std::size_t i = kept.size(); i-- > 0;) {
    strides[static_cast<std::size_t>(std::find(scope.begin(), scope.end(), kept[i]) - scope.begin())] = size;
    size *= at(unary[at(kept[i])]->dims[0]);
  }
  std::vector<Cost> least(size, 2 * kForbidden);
  std::vector<int> index(dims.size());
  std::size_t to = 0;
  for (const auto value : table) {
    least[to] = std::min(least[to], value);
    for (std::size_t d = dims.size(); d-- > 0;) {
      to += strides[d];
      if (++index[d] < dims[d]) break;
      to -= strides[d] * at(dims[d]);
      index[d] = 0;
    }
  }
  return least;
}

}  // namespace

std::size_t Eliminator::Hash::operator()(const Key& key) const {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const auto x : key) h = (h ^ static_cast<std::uint64_t>(x)) * 0x100000001b3U;
  return static_cast<std::size_t>(h ^ (h >> 32));
}

TablePtr Eliminator::make_table(std::vector<int> dims, std::vector<Cost> values) {
  return std::make_shared<const Table>(Table{next_id_++, std::move(dims), std::move(values)});
}

const Eliminator::Message& Eliminator::eliminate(const Elimination& step, const std::vector<const Factor*>& factors,
                                                 const std::vector<TablePtr>& unary) {
  const auto position = [&](int u) -> std::int64_t {
    return u == step.vertex
               ? -1
               : std::lower_bound(step.neighbours.begin(), step.neighbours.end(), u) - step.neighbours.begin();
  };
  Key key;
  for (const auto* factor : factors) {
    key.push_back(factor->table->id);
    for (const auto u : factor->scope) key.push_back(position(u));
  }
  const auto [found, is_new] = messages_.try_emplace(std::move(key));
  auto& message = found->second;
  if (!is_new) return message;

  for (const auto* factor : factors) message.inputs.push_back(factor->table);
  auto dims = dims_of(step.neighbours, unary);
  std::vector<Cost> least(size_of(dims));
  message.best.resize(least.size());
  for_each_row(step, factors, unary, [&](std::size_t entry, const std::vector<Cost>& sums) {
    const auto best = std::min_element(sums.begin(), sums.end());
    least[entry] = *best;
    message.best[entry] = static_cast<std::int32_t>(best - sums.begin());
  });
  message.least = make_table(std::move(dims), std::move(least));
  return message;
}

Eliminator::Pass Eliminator::eliminate_all(const std::vector<TablePtr>& unary, const std::vector<Factor>& pairs,
                                           const EliminationOrder& order) {
  // A table between two vertices waits at both; the first to go takes it. Nobody waits for a vertex without a choice.
  Pass pass;
  std::vector<std::vector<int>> waiting(unary.size());
  const auto wait = [&](Factor factor, int maker) {
    const auto last = factor.scope.back();
    std::erase_if(factor.scope, [&](int u) { return unary[at(u)]->dims[0] == 1; });
    if (factor.scope.empty()) factor.scope = {last};
    for (const auto u : factor.scope) waiting[at(u)].push_back(static_cast<int>(pass.factors.size()));
    pass.factors.push_back(std::move(factor));
    pass.maker.push_back(maker);
  };
  for (int v = 0; v < static_cast<int>(unary.size()); ++v) wait({{v}, unary[at(v)]}, -1);
  for (const auto& pair : pairs) wait(pair, -1);

  std::vector<bool> taken(pass.factors.size() + order.steps.size());
  for (int s = 0; s < static_cast<int>(order.steps.size()); ++s) {
    const auto& step = order.steps[at(s)];
    auto& used = pass.used.emplace_back();
    std::vector<const Factor*> factors;
    for (const auto f : waiting[at(step.vertex)]) {
      if (taken[at(f)]) continue;
      taken[at(f)] = true;
      used.push_back(f);
      factors.push_back(&pass.factors[at(f)]);
    }
    const auto& message = eliminate(step, factors, unary);
    pass.messages.push_back(&message);
    if (step.neighbours.empty())
      pass.cost += message.least->values[0];
    else
      wait({step.neighbours, message.least}, s);
  }
  return pass;
}

Eliminator::Result Eliminator::minimise(const std::vector<TablePtr>& unary, const std::vector<Factor>& pairs,
                                        const EliminationOrder& order) {
  const auto pass = eliminate_all(unary, pairs, order);
  Result result;
  result.cost = pass.cost;
  result.choice.resize(unary.size());
  for (std::size_t s = order.steps.size(); s-- > 0;) {
    const auto& step = order.steps[s];
    std::size_t entry = 0;
    for (const auto u : step.neighbours) entry = entry * at(unary[at(u)]->dims[0]) + at(result.choice[at(u)]);
    result.choice[at(step.vertex)] = pass.messages[s]->best[entry];
  }
  return result;
}

std::vector<Eliminator::PairAlternative> Eliminator::alternatives(
    const std::vector<TablePtr>& unary, const std::vector<Factor>& pairs, const EliminationOrder& order,
    const std::function<bool(std::size_t pair, int first, int second)>& excluded) {
  const auto pass = eliminate_all(unary, pairs, order);
  std::vector<PairAlternative> result(pairs.size());
  // By step and its neighbours' choices: the least cost of all that the step and those before it did not sum.
  std::vector<std::vector<Cost>> outside(order.steps.size());
  for (std::size_t s = order.steps.size(); s-- > 0;) {
    const auto& step = order.steps[s];
    if (step.neighbours.empty()) outside[s] = {pass.cost - pass.messages[s]->least->values[0]};
    std::vector<const Factor*> factors;
    for (const auto f : pass.used[s]) factors.push_back(&pass.factors[at(f)]);
    std::vector<Cost> total;  // of the whole problem, by the choices of the neighbours and the vertex
    for_each_row(step, factors, unary, [&](std::size_t entry, const std::vector<Cost>& sums) {
      for (const auto sum : sums) total.push_back(sum + outside[s][entry]);
    });
    auto scope = step.neighbours;
    scope.push_back(step.vertex);
    for (const auto f : pass.used[s]) {
      if (at(f) < unary.size()) continue;
      const auto least = least_by(total, scope, pass.factors[at(f)].scope, unary);
      if (const auto child = pass.maker[at(f)]; child >= 0) {
        const auto& inside = pass.messages[at(child)]->least->values;
        for (std::size_t i = 0; i < least.size(); ++i)
          outside[at(child)].push_back(least[i] >= kForbidden ? kForbidden : least[i] - inside[i]);
        continue;
      }
      const auto pair = at(f) - unary.size();
      const auto& dims = pairs[pair].table->dims;
      auto& best = result[pair];
      for (int i = 0; i < dims[0]; ++i)
        for (int j = 0; j < dims[1]; ++j)
          if (const auto cost = least[at(i * dims[1] + j)]; cost < best.cost && !excluded(pair, i, j))
            best = {cost, i, j};
    }
    outside[s] = {};
  }
  return result;
}

}  // namespace tessera::partition
