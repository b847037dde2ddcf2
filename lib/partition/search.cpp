#include "partition/search.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/error.h"
#include "core/text.h"

namespace tessera::partition {
namespace {

constexpr int kSweeps = 3;
constexpr std::size_t kAllOrdersUpTo = 4;  // free axes: 24 orders

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// The orders in which sweeps go through the free axes: all of a few, of many every axis first, both ways round.
std::vector<std::vector<mesh::Axis>> axis_orders(std::vector<mesh::Axis> axes) {
  std::vector<std::vector<mesh::Axis>> orders;
  if (axes.size() <= kAllOrdersUpTo) {
    do orders.push_back(axes);
    while (std::next_permutation(axes.begin(), axes.end()));
    return orders;
  }
  for (std::size_t i = 0; i < axes.size(); ++i, std::rotate(axes.begin(), axes.begin() + 1, axes.end())) {
    orders.push_back(axes);
    orders.emplace_back(axes.rbegin(), axes.rend());
  }
  return orders;
}

}  // namespace

Search::Search(const SolverInput& input, const Problem& problem, const CostModel& cost, const StrategyMaker& maker,
               MoveCache& moves, AxisSet idle, AxisSet quiet)
    : input_(input),
      problem_(problem),
      cost_(cost),
      maker_(maker),
      moves_(moves),
      quiet_(quiet),
      most_strategies_(std::max<std::size_t>(1, static_cast<std::size_t>(input.table_limit) >> 9U)) {
  kinds_.resize(at(problem.kinds));
  for (const auto& vertex : problem.vertices) {
    auto& kind = kinds_[at(vertex.kind)];
    if (kind.example != nullptr) continue;
    kind.example = &vertex;
    kind.options = axis_options(vertex);
    kind.choices = maker.choices(vertex, kind.options, idle, quiet);
    kind.all = maker.combinations(vertex, kind.options, kind.choices, most_strategies_);
    if (kind.all.empty()) fail_at_vertex(vertex);
  }
}

void Search::fail_at_vertex(const Vertex& vertex) const {
  std::vector<std::string> sizes;
  for (const auto& [factor, size] : vertex.traits->rule.sizes) {
    const bool batch = factor == vertex.batch_factor;
    if (batch || vertex.pin) sizes.push_back(fmt::format("{}{} = {}", batch ? "the batch " : "", factor, size));
  }
  fail(ExitCode::kConfig,
       "{} cannot be split over mesh {}: {} must divide over the axes that split it; choose sizes that divide, or "
       "another mesh",
       vertex.name, to_string(*input_.mesh), join(sizes));
}

Search::Result Search::run(double saved_byte_fs) {
  set_price(saved_byte_fs);
  std::vector<int> cardinalities;
  bool complete = true;
  for (const auto& vertex : problem_.vertices) {
    const auto count = kinds_[at(vertex.kind)].all.size();
    complete = complete && count <= most_strategies_;
    cardinalities.push_back(static_cast<int>(count));
  }
  const auto& order = order_of(cardinalities);
  const bool joint =
      complete && order.largest_table < std::max(2.0, static_cast<double>(input_.table_limit));  // 1: nothing to choose
  auto result = joint ? run_joint(order) : run_by_axis();
  result.joint_table = order.largest_table;
  result.how = joint ? fmt::format("all axes together, largest table {:.0f}", result.table)
                     : fmt::format("axis by axis, largest table {:.0f}; all axes together would take {}{:.3g}",
                                   result.table, complete ? "" : "over ", result.joint_table);
  if (result.cost >= kForbidden)
    fail(ExitCode::kConfig,
         "the model cannot be computed on mesh {}: the layouts that are pinned contradict each other{}",
         to_string(*input_.mesh), impossible_.empty() ? "" : "; look at " + impossible_);
  result.unpriced = unpriced(result);
  return result;
}

Cost Search::unpriced(const Result& result) const {
  if (saved_byte_fs_ == 0) return result.cost;
  EdgePricer pricer(input_, problem_, cost_, maker_, moves_, quiet_, 0);
  Cost cost = 0;
  for (const auto& strategy : result.chosen) cost += strategy->cost_fs;
  for (const auto& edge : problem_.edges)
    cost += pricer.prices(edge, {result.chosen[at(edge.from)]}, {result.chosen[at(edge.to)]}).front();
  return cost;
}

void Search::set_price(double saved_byte_fs) {
  if (pricer_ && saved_byte_fs == saved_byte_fs_) return;
  saved_byte_fs_ = saved_byte_fs;
  sets_.clear();
  edge_tables_.clear();
  eliminator_.emplace();
  pricer_.emplace(input_, problem_, cost_, maker_, moves_, quiet_, saved_byte_fs);
}

const EliminationOrder& Search::order_of(const std::vector<int>& cardinalities) {
  const auto [found, is_new] = orders_.try_emplace(cardinalities);
  if (is_new) {
    std::vector<std::pair<int, int>> pairs;
    for (const auto& edge : problem_.edges) pairs.emplace_back(edge.from, edge.to);
    found->second = elimination_order(cardinalities, pairs);
  }
  return found->second;
}

const Search::Set& Search::make_set(int kind, const std::vector<Combination>& combinations,
                                    const std::vector<int>& key) {
  auto& set = sets_[key];
  set.id = static_cast<int>(sets_.size());
  set.kind = kind;
  set.combinations = combinations;
  const auto& vertex = *kinds_[at(kind)].example;
  std::vector<Cost> costs;
  for (const auto& combination : combinations) {
    auto strategy = maker_.make(vertex, kinds_[at(kind)].options, combination);
    Cost cost = strategy.cost_fs;
    if (vertex.keeps_result && saved_byte_fs_ > 0)
      cost += static_cast<Cost>(saved_byte_fs_ *
                                static_cast<double>(elements(vertex.shape()) * size_of(vertex.traits->dtype)) *
                                maker_.local_share(strategy.result));
    costs.push_back(cost);
    set.strategies.push_back(std::make_shared<const Strategy>(std::move(strategy)));
  }
  set.costs = eliminator_->make_table({static_cast<int>(combinations.size())}, std::move(costs));
  return set;
}

const Search::Set& Search::joint_set(int kind) {
  const std::vector<int> key{kind};
  const auto found = sets_.find(key);
  return found != sets_.end() ? found->second : make_set(kind, kinds_[at(kind)].all, key);
}

const Search::Set& Search::axis_set(int kind, const Combination& current, mesh::Axis axis) {
  std::vector<int> key{kind, axis};
  for (mesh::Axis a = 0; a < input_.mesh->axis_count(); ++a) key.push_back(a == axis ? -1 : current[at(a)]);
  const auto found = sets_.find(key);
  if (found != sets_.end()) return found->second;
  Choices choices;
  for (mesh::Axis a = 0; a < input_.mesh->axis_count(); ++a)
    choices[at(a)] = a == axis ? kinds_[at(kind)].choices[at(a)] : std::vector<std::uint8_t>{current[at(a)]};
  const auto& vertex = *kinds_[at(kind)].example;
  return make_set(kind, maker_.combinations(vertex, kinds_[at(kind)].options, choices, kinds_[at(kind)].options.size()),
                  key);
}

TablePtr Search::edge_table(const Edge& edge, const Set& from, const Set& to) {
  auto& table = edge_tables_[{from.id, to.id, edge.operand}];
  if (!table) {
    auto prices = pricer_->prices(edge, from.strategies, to.strategies);
    if (std::all_of(prices.begin(), prices.end(), [](Cost cost) { return cost >= kForbidden; }))
      impossible_ =
          fmt::format("{} from {}", problem_.vertices[at(edge.to)].name, problem_.vertices[at(edge.from)].name);
    table = eliminator_->make_table({static_cast<int>(from.strategies.size()), static_cast<int>(to.strategies.size())},
                                    std::move(prices));
  }
  return table;
}

std::vector<TablePtr> Search::unary_tables(const std::vector<const Set*>& sets) const {
  std::vector<TablePtr> tables;
  for (const auto* set : sets) tables.push_back(set->costs);
  return tables;
}

std::vector<Factor> Search::pair_tables(const std::vector<const Set*>& sets) {
  std::vector<Factor> pairs;
  pairs.reserve(problem_.edges.size());
  for (const auto& edge : problem_.edges)
    pairs.push_back({{edge.from, edge.to}, edge_table(edge, *sets[at(edge.from)], *sets[at(edge.to)])});
  return pairs;
}

std::vector<int> Search::cardinalities_of(const std::vector<const Set*>& sets) const {
  std::vector<int> cardinalities;
  for (const auto* set : sets) cardinalities.push_back(static_cast<int>(set->strategies.size()));
  return cardinalities;
}

std::vector<const Search::Set*> Search::joint_sets() {
  std::vector<const Set*> sets;
  for (const auto& vertex : problem_.vertices) sets.push_back(&joint_set(vertex.kind));
  return sets;
}

std::vector<const Search::Set*> Search::axis_sets(const std::vector<Combination>& current, mesh::Axis axis) {
  std::vector<const Set*> sets;
  for (std::size_t v = 0; v < current.size(); ++v)
    sets.push_back(&axis_set(problem_.vertices[v].kind, current[v], axis));
  return sets;
}

Search::Result Search::run_joint(const EliminationOrder& order) {
  const auto sets = joint_sets();
  const auto best = eliminator_->minimise(unary_tables(sets), pair_tables(sets), order);
  Result result;
  result.cost = best.cost;
  result.table = order.largest_table;
  for (std::size_t v = 0; v < sets.size(); ++v) result.chosen.push_back(sets[v]->strategies[at(best.choice[v])]);
  return result;
}

std::vector<Search::EdgeAlternative> Search::alternatives(double saved_byte_fs) {
  const auto result = run(saved_byte_fs);
  std::vector<EdgeAlternative> alternatives(problem_.edges.size());
  if (result.combinations.empty()) {
    improve_alternatives(joint_sets(), result, alternatives);
  } else {
    for (const bool of_batch : {true, false})
      for (const auto axis : free_axes(of_batch))
        improve_alternatives(axis_sets(result.combinations, axis), result, alternatives);
  }
  return alternatives;
}

void Search::improve_alternatives(const std::vector<const Set*>& sets, const Result& result,
                                  std::vector<EdgeAlternative>& alternatives) {
  const auto strategy = [&](int vertex, int choice) { return sets[at(vertex)]->strategies[at(choice)]; };
  const auto chosen = [&](std::size_t e, int i, int j) {
    const auto& edge = problem_.edges[e];
    const auto k = at(edge.operand);
    return strategy(edge.from, i)->result == result.chosen[at(edge.from)]->result &&
           strategy(edge.to, j)->operands[k] == result.chosen[at(edge.to)]->operands[k];
  };
  const auto found =
      eliminator_->alternatives(unary_tables(sets), pair_tables(sets), order_of(cardinalities_of(sets)), chosen);
  for (std::size_t e = 0; e < found.size(); ++e)
    if (found[e].cost < alternatives[e].cost)
      alternatives[e] = {found[e].cost, strategy(problem_.edges[e].from, found[e].first),
                         strategy(problem_.edges[e].to, found[e].second)};
}

// The batch split, nothing else: the first choice on each axis.
std::vector<Combination> Search::start() const {
  std::vector<Combination> current;
  for (const auto& vertex : problem_.vertices) {
    Combination combination{};
    const auto& choices = kinds_[at(vertex.kind)].choices;
    for (mesh::Axis axis = 0; axis < input_.mesh->axis_count(); ++axis)
      combination[at(axis)] = choices[at(axis)].front();
    current.push_back(combination);
  }
  return current;
}

const Search::Step& Search::improve(const std::vector<Combination>& current, mesh::Axis axis) {
  const auto [found, is_new] = steps_.try_emplace({axis, current});
  auto& step = found->second;
  if (!is_new) return step;
  const auto sets = axis_sets(current, axis);
  const auto& order = order_of(cardinalities_of(sets));
  const auto best = eliminator_->minimise(unary_tables(sets), pair_tables(sets), order);
  step.cost = best.cost;
  step.table = order.largest_table;
  for (std::size_t v = 0; v < sets.size(); ++v) {
    step.next.push_back(sets[v]->combinations[at(best.choice[v])]);
    step.chosen.push_back(sets[v]->strategies[at(best.choice[v])]);
  }
  return step;
}

// Axes on which some op has a choice.
std::vector<mesh::Axis> Search::free_axes(bool of_batch) const {
  std::vector<mesh::Axis> axes;
  for (mesh::Axis axis = 0; axis < input_.mesh->axis_count(); ++axis) {
    const auto& batch = input_.batch_axes;
    const bool splits_batch = std::find(batch.begin(), batch.end(), axis) != batch.end();
    if (splits_batch == of_batch &&
        std::any_of(kinds_.begin(), kinds_.end(), [&](const Kind& k) { return k.choices[at(axis)].size() > 1; }))
      axes.push_back(axis);
  }
  return axes;
}

Search::Result Search::run_by_axis() {
  steps_.clear();
  const Step* best = nullptr;
  for (const auto& tail : axis_orders(free_axes(false))) {
    auto axes = free_axes(true);
    axes.insert(axes.end(), tail.begin(), tail.end());
    auto current = start();
    const Step* last = nullptr;
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      const Step* before = last;
      for (const auto axis : axes) {
        last = &improve(current, axis);
        current = last->next;
      }
      if (before != nullptr && last->cost == before->cost) break;
    }
    if (best == nullptr || last->cost < best->cost) best = last;
  }
  Result result;
  result.cost = best->cost;
  result.chosen = best->chosen;
  result.combinations = best->next;
  for (const auto& [key, step] : steps_) result.table = std::max(result.table, step.table);
  return result;
}

}  // namespace tessera::partition
