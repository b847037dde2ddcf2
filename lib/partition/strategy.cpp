#include "partition/strategy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>

#include "core/error.h"
#include "mesh/distribution.h"

namespace tessera::partition {
namespace {

using graph::DimFactors;
using graph::TensorFactors;
using LocalSizes = std::map<char, double>;  // of factors; below 1 where a lowering splits a product as one range

constexpr std::string_view kRing = "ring";  // the lowering that sends blocks around an axis

std::size_t at(int i) { return static_cast<std::size_t>(i); }

bool has(const std::string& letters, char f) { return letters.find(f) != std::string::npos; }

// The dimension that has a factor, kReplicated if none has.
Place dim_of(const TensorFactors& tensor, char f) {
  const auto found = std::find_if(tensor.begin(), tensor.end(), [&](const DimFactors& dim) { return has(dim, f); });
  return found == tensor.end() ? kReplicated : static_cast<Place>(found - tensor.begin());
}

std::string letters_of(const graph::Rule& rule) {
  std::string letters;
  const auto add = [&](const TensorFactors& tensor) {
    for (const auto& dim : tensor)
      for (const char f : dim)
        if (!has(letters, f)) letters += f;
  };
  for (const auto& operand : rule.operands) add(operand);
  add(rule.result);
  return letters;
}

// Whether the option communicates inside the op.
bool is_loud(const Vertex& vertex, const AxisOption& option) {
  if (option.label == kRing) return true;
  return option.divides != 0 && !option.extra &&
         std::any_of(vertex.traits->inner.begin(), vertex.traits->inner.end(), [&](const auto& inner) {
           return has(inner.over, option.divides) && (!inner.backward || vertex.needs());
         });
}

// Of a matmul, forward. Attention is two: q with k over the whole factors that vanish, then with v, whose own stay.
double forward_flops(const graph::OpTraits& traits, const LocalSizes& local) {
  double product = 1, vanishing = 1, staying = 1;
  for (const auto& [factor, size] : local) {
    product *= size;
    if (has(traits.rule.whole, factor)) (dim_of(traits.rule.result, factor) >= 0 ? staying : vanishing) *= size;
  }
  return traits.rule.operands.size() < 3 ? 2 * product : 2 * product / staying + 2 * product / vanishing;
}

}  // namespace

std::vector<AxisOption> axis_options(const Vertex& vertex) {
  const auto& traits = *vertex.traits;
  const auto& rule = traits.rule;
  const auto count = rule.operands.size();
  const std::vector<Place> whole(count, kReplicated), sums(count, kPartial);
  std::vector<AxisOption> options{{.label = "-", .operands = whole, .cotangents = whole}};
  if (vertex.source) return options;
  for (const char f : letters_of(rule)) {
    if (has(rule.whole, f) || rule.sizes.at(f) == 1) continue;
    AxisOption option{.label = std::string(1, f), .operands = {}, .cotangents = {}};
    option.divides = f;
    for (const auto& operand : rule.operands) {
      const auto dim = dim_of(operand, f);
      option.operands.push_back(dim);
      option.cotangents.push_back(dim < 0 ? kPartial : dim);
    }
    const auto dim = dim_of(rule.result, f);
    option.result = dim >= 0 || has(rule.composite, f) ? dim : kPartial;
    option.result_cotangent = dim;
    options.push_back(std::move(option));
  }
  // Backward is linear in its cotangent: a partial one goes through, and the sums meet at a hub or at a gradient.
  if (vertex.needs() && (vertex.node.hub || traits.passes))
    options.push_back({.label = "~", .operands = whole, .cotangents = sums, .result_cotangent = kPartial});
  for (const auto& group : partial_groups(vertex)) {
    AxisOption option{.label = "P", .operands = whole, .cotangents = whole, .result = kPartial};
    for (const auto k : group) option.operands[at(k)] = kPartial;
    if (group.size() < count) option.label += std::to_string(group.front());
    options.push_back(std::move(option));
  }
  for (const auto& extra : traits.extra) {
    const auto places = [](const std::vector<int>& list) { return std::vector<Place>(list.begin(), list.end()); };
    options.push_back({.label = extra.label,
                       .operands = places(extra.operands),
                       .cotangents = places(extra.operand_cotangents),
                       .result = static_cast<Place>(extra.result),
                       .result_cotangent = static_cast<Place>(extra.result_cotangent),
                       .divides = extra.divides,
                       .extra = true});
  }
  return options;
}

StrategyMaker::StrategyMaker(const SolverInput& input, const CostModel& cost)
    : mesh_(*input.mesh),
      cost_(cost),
      activation_(mesh::activation_order(*input.mesh, input.batch_axes)),
      variable_(mesh::variable_order(*input.mesh, input.batch_axes)) {
  for (const auto axis : input.batch_axes) batch_ |= 1U << axis;
}

Choices StrategyMaker::choices(const Vertex& vertex, const std::vector<AxisOption>& options, AxisSet idle,
                               AxisSet quiet) const {
  Choices choices;
  const auto batch = std::find_if(options.begin(), options.end(), [&](const AxisOption& option) {
    return option.divides == vertex.batch_factor && option.divides != 0 && !option.extra;
  });
  for (mesh::Axis axis = 0; axis < mesh_.axis_count(); ++axis) {
    auto& list = choices[at(axis)];
    if (vertex.source || mesh_.size(axis) == 1 || contains(idle, axis)) {
      list = {0};
    } else if (contains(batch_, axis) && batch != options.end()) {
      list = {static_cast<std::uint8_t>(batch - options.begin())};
    } else {
      list.resize(options.size());
      std::iota(list.begin(), list.end(), std::uint8_t{0});
    }
    std::erase_if(list, [&](std::uint8_t i) {
      return (contains(quiet, axis) && is_loud(vertex, options[i])) ||
             (vertex.pin && options[i].result != (*vertex.pin)[at(axis)]);
    });
  }
  return choices;
}

// Sizes, and products: the axes of a dimension, major to minor, go through its factors in order, and a later factor
// needs the earlier ones used up. A lowering of its own that starts at a later factor treats the product as one range.
bool StrategyMaker::divides(const Vertex& vertex, const std::vector<AxisOption>& options,
                            const Combination& combination, const std::vector<mesh::Axis>& axes) const {
  const auto& rule = vertex.traits->rule;
  const auto dim_divides = [&](const DimFactors& factors, std::size_t tensor, Place dim) {
    std::array<std::int64_t, 8> left{};
    std::int64_t total = 1;
    for (std::size_t i = 0; i < factors.size(); ++i) total *= left[i] = rule.sizes.at(factors[i]);
    std::size_t position = 0;
    for (const auto axis : axes) {
      const auto& option = options[combination[at(axis)]];
      if ((tensor < option.operands.size() ? option.operands[tensor] : option.result) != dim) continue;
      const auto size = mesh_.size(axis);
      if (total % size != 0) return false;
      total /= size;
      const auto found = factors.find(option.divides);
      const auto i = found == std::string::npos ? 0 : found;
      if (i < position) return false;
      position = i;
      if (option.extra && i > 0) continue;
      if (left[i] % size != 0 || std::any_of(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(i),
                                             [](std::int64_t n) { return n > 1; }))
        return false;
      left[i] /= size;
    }
    return true;
  };
  for (std::size_t k = 0; k <= rule.operands.size(); ++k) {
    const auto& tensor = k < rule.operands.size() ? rule.operands[k] : rule.result;
    for (std::size_t d = 0; d < tensor.size(); ++d)
      if (!dim_divides(tensor[d], k, static_cast<Place>(d))) return false;
  }
  return true;
}

std::vector<Combination> StrategyMaker::combinations(const Vertex& vertex, const std::vector<AxisOption>& options,
                                                     const Choices& choices, std::size_t limit) const {
  std::vector<Combination> found;
  const auto& major_to_minor = order(vertex.node.order);
  std::vector<mesh::Axis> decided;
  Combination combination{};
  // What does not divide over the first axes does not over more.
  const auto extend = [&](const auto& self, std::size_t depth) -> void {
    if (depth == major_to_minor.size()) {
      found.push_back(combination);
      return;
    }
    const auto axis = major_to_minor[depth];
    decided.push_back(axis);
    for (const auto option : choices[at(axis)]) {
      combination[at(axis)] = option;
      if (found.size() <= limit && divides(vertex, options, combination, decided)) self(self, depth + 1);
    }
    decided.pop_back();
    combination[at(axis)] = 0;
  };
  extend(extend, 0);
  std::sort(found.begin(), found.end());
  return found;
}

double StrategyMaker::local_share(const Placement& placement) const {
  std::int64_t parts = 1;
  for (mesh::Axis axis = 0; axis < mesh_.axis_count(); ++axis)
    if (placement[at(axis)] >= 0) parts *= mesh_.size(axis);
  return 1 / static_cast<double>(parts);
}

Strategy StrategyMaker::make_source(const Vertex& vertex) const {
  Strategy strategy;
  strategy.labels.assign(at(mesh_.axis_count()), "source");
  strategy.result = vertex.value;
  strategy.result_cotangent = vertex.gradient;
  return strategy;
}

Strategy StrategyMaker::make(const Vertex& vertex, const std::vector<AxisOption>& options,
                             const Combination& combination) const {
  if (vertex.source) return make_source(vertex);
  Strategy strategy;
  const auto count = vertex.traits->rule.operands.size();
  strategy.operands.assign(count, replicated_placement());
  strategy.cotangents.assign(count, replicated_placement());
  strategy.result = strategy.result_cotangent = replicated_placement();
  for (std::size_t a = 0; a < at(mesh_.axis_count()); ++a) {
    const auto& option = options[combination[a]];
    strategy.labels.push_back(option.label);
    strategy.factor[a] = option.divides;
    for (std::size_t k = 0; k < count; ++k) {
      strategy.operands[k][a] = option.operands[k];
      strategy.cotangents[k][a] = option.cotangents[k];
    }
    strategy.result[a] = option.result;
    strategy.result_cotangent[a] = option.result_cotangent;
  }
  price(vertex, options, combination, strategy);
  return strategy;
}

void StrategyMaker::price(const Vertex& vertex, const std::vector<AxisOption>& options, const Combination& combination,
                          Strategy& strategy) const {
  const auto& traits = *vertex.traits;
  const auto& rule = traits.rule;
  const bool needs = vertex.needs();
  const auto result_bytes = static_cast<double>(elements(traits.shape) * size_of(traits.dtype));
  if (vertex.node.hub) {  // one kernel adds the cotangents, in f32, and writes once
    const auto bytes = result_bytes * local_share(strategy.result_cotangent) * (vertex.cotangents + 1);
    if (vertex.cotangents > 1) strategy.cost_fs = add_times(cost_.memory(bytes), cost_.kernel());
    return;
  }
  LocalSizes local(rule.sizes.begin(), rule.sizes.end());
  for (mesh::Axis axis = 0; axis < mesh_.axis_count(); ++axis)
    if (const auto f = options[combination[at(axis)]].divides; f != 0)
      local[f] /= static_cast<double>(mesh_.size(axis));
  std::vector<double> operand_bytes;  // of a rank's own shards
  double touched = result_bytes * local_share(strategy.result);
  for (std::size_t k = 0; k < rule.operands.size(); ++k) {
    const auto global = elements(graph::shape_of(rule.operands[k], rule.sizes)) * vertex.operand_item[k];
    operand_bytes.push_back(static_cast<double>(global) * local_share(strategy.operands[k]));
    touched += operand_bytes.back();
  }
  const auto wanted = std::count(vertex.operand_needs.begin(), vertex.operand_needs.end(), true);
  if (traits.matmul) {
    // Attention's backward pass computes the scores again: 2.5 times the forward.
    const double backward = rule.operands.size() < 3 ? static_cast<double>(wanted) : needs ? 2.5 : 0;
    strategy.flops = forward_flops(traits, local) * (1 + backward);
  }
  const auto kernels = 1 + (traits.matmul ? wanted : needs ? 1 : 0);
  const auto busy = std::max(cost_.compute(strategy.flops, traits.dtype), cost_.memory(touched * (needs ? 3 : 1)));
  const auto exposed = price_collectives(vertex, local, strategy);
  const auto hidden = price_rings(vertex, operand_bytes, strategy);
  strategy.cost_fs = add_times(std::max(add_times(busy, cost_.kernel() * kernels), hidden), exposed);
}

// Of composite factors that are split. A letter split over several axes is one collective.
std::int64_t StrategyMaker::price_collectives(const Vertex& vertex, const std::map<char, double>& local,
                                              Strategy& strategy) const {
  std::int64_t time = 0;
  for (const auto& inner : vertex.traits->inner) {
    if (inner.backward && !vertex.needs()) continue;
    std::vector<mesh::Axis> axes;
    for (mesh::Axis axis = 0; axis < mesh_.axis_count(); ++axis) {
      const auto& label = strategy.labels[at(axis)];
      if (label.size() == 1 && has(inner.over, label.front())) axes.push_back(axis);
    }
    if (axes.empty()) continue;
    double count = inner.count;
    for (const char f : inner.rows) count *= local.at(f);
    const auto n = static_cast<double>(mesh_.size(axes));
    time = add_times(time, add_times(cost_.latency(axes), cost_.transfer(axes, 2 * (n - 1) / n * count * 4)));
    strategy.inner.push_back({inner.backward, false, std::move(axes), count * 4});
  }
  return time;
}

// Keys and values go around, with their f32 gradients on the way back. Overlaps the compute.
std::int64_t StrategyMaker::price_rings(const Vertex& vertex, const std::vector<double>& operand_bytes,
                                        Strategy& strategy) const {
  std::int64_t time = 0;
  for (mesh::Axis axis = 0; axis < mesh_.axis_count(); ++axis) {
    if (strategy.labels[at(axis)] != kRing) continue;
    const auto n = static_cast<double>(mesh_.size(axis));
    const auto blocks = operand_bytes[1] + operand_bytes[2];
    const auto gradients = blocks / static_cast<double>(vertex.operand_item[1]) * 4;
    const auto forward = std::floor((n - 1) * blocks);
    const auto backward = vertex.needs() ? std::floor((n - 1) * blocks + n * gradients) : 0;
    strategy.inner.push_back({false, true, {axis}, forward});
    if (vertex.needs()) strategy.inner.push_back({true, true, {axis}, backward});
    const auto latency = static_cast<std::int64_t>(3 * (n - 1)) * cost_.latency({axis});
    time = add_times(time, add_times(latency, cost_.transfer({axis}, forward + backward)));
  }
  return time;
}

}  // namespace tessera::partition
