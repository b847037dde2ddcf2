#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/attributes.h"
#include "core/dtype.h"
#include "core/shape.h"
#include "graph/emit.h"
#include "graph/rule.h"

namespace tessera::graph {

/// What an op may know of an operand when it states its rule.
struct TensorInfo {
  Shape shape;
  DType dtype = DType::kF32;
  int batch_dim = -1;  // the dimension that counts samples, -1 if there is none
};

/// A collective inside the lowering of a composite factor: `count` values of 4 bytes for each element of `rows`,
/// reduced over the axes that split a letter of `over`.
struct InnerCollective {
  bool backward = false;
  ReduceKind reduce = ReduceKind::kSum;
  std::string over;
  std::string rows;
  int count = 1;

  bool operator==(const InnerCollective&) const = default;
};

/// A strategy that the factors do not generate (attention's ring and heads). Placements as in partition: a dimension,
/// or -1 (replicated), -2 (partial); `divides` is the factor whose work is divided.
struct ExtraStrategy {
  std::string label;
  std::vector<int> operands, operand_cotangents;
  int result = -1, result_cotangent = -1;
  char divides = 0;

  bool operator==(const ExtraStrategy&) const = default;
};

/// All that the partitioner needs to know of an op with given operands.
struct OpTraits {
  Rule rule;
  Shape shape;  // of the result
  DType dtype = DType::kF32;
  /// Operand k is kept for the backward pass if one of the cotangents saves[k] is needed.
  std::map<int, std::vector<int>> saves;
  /// The result is kept if one of these cotangents is needed (relu, tanh, softmax read y).
  std::vector<int> saves_result;
  /// Groups of operands in which the op is linear: all partial or none.
  std::vector<std::vector<int>> linear;
  bool matmul = false;  // cost is flops: 2 x product of all factors
  bool is_sum = false;  // takes R -> P on an operand (add, scalar sums)
  bool passes = false;  // strategy `~`: backward is linear in its cotangent
  /// The op reduces over the batch dimension and takes the row mask. Without it the graph refuses a reduced batch.
  bool masks_rows = false;
  std::vector<InnerCollective> inner;
  std::vector<ExtraStrategy> extra;
};

/// An op: its rule and shape, and how it and its gradient become kernels on local shards. Adding one is one file in
/// lib/graph/ops, its kernels and their test.
struct Op {
  std::string_view name;
  OpTraits (*traits)(const Attributes&, std::span<const TensorInfo>);
  /// An update op also writes its slots in place: input(k) of a slot operand stands among the kernel's outputs.
  void (*forward)(Emit&);
  void (*backward)(Emit&);  // null: no operand ever has a cotangent
};

}  // namespace tessera::graph
