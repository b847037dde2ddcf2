#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/shape.h"

namespace tessera::graph {

/// The factors of one dimension, major first: "s", or "gi" for the product (gi). A letter names a factor.
using DimFactors = std::string;
using TensorFactors = std::vector<DimFactors>;

/// The sharding rule of an op: an einsum-like string over named factors, `mk,kn->mn`, `nhw(gi),xyi(go)->nhw(go)`.
/// A factor absent from the result is *reduce*: splitting it leaves partial sums. `whole` factors are never split,
/// `composite` ones may be, with communication inside the op.
struct Rule {
  std::vector<TensorFactors> operands;
  TensorFactors result;
  std::map<char, std::int64_t> sizes;
  std::string composite;
  std::string whole;

  bool operator==(const Rule&) const = default;
};

/// Reads the string and takes the factors' sizes from the operands' shapes; `sizes` gives those that the shapes leave
/// open (of n factors in a product n - 1 must be known). Throws (internal) where the shapes contradict it.
Rule parse_rule(const std::string& text, const std::vector<Shape>& operands, std::map<char, std::int64_t> sizes = {});

/// Sizes of a tensor with these factors.
Shape shape_of(const TensorFactors& factors, const std::map<char, std::int64_t>& sizes);

/// Letters a, b, c, ... for a tensor of this rank.
TensorFactors letters(std::size_t rank);

}  // namespace tessera::graph
