#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "partition/assignment.h"

namespace tessera::partition {

/// A vertex with what its strategies and the prices of its edges depend on.
struct Vertex {
  SolverNode node;
  std::string name;                         // "dense_1/matmul", "dense_1/kernel.hub"
  const graph::OpTraits* traits = nullptr;  // a hub has its own; a source only shape and dtype
  bool source = false;
  char batch_factor = 0;
  int cotangents = 0;            // of a hub: how many come back, to be added
  bool keeps_result = false;     // for the backward pass, by itself
  std::optional<Placement> pin;  // of the result
  Placement value = replicated_placement(),
            gradient = replicated_placement();  // of a source; a variable's hub knows its value
  std::vector<bool> operand_needs;              // cotangents that go up
  std::vector<std::int64_t> operand_item;       // bytes of an element as this op reads it
  int kind = -1;                                // structural class: equal vertices share strategies and tables

  const Shape& shape() const { return traits->shape; }
  bool needs() const { return node.needs_cotangent; }
  bool reads(std::size_t k) const { return node.reads[k]; }
};

/// Operand `operand` of vertex `to` is the result of vertex `from`.
struct Edge {
  int from = -1, to = -1, operand = -1;
};

/// The graph as the solver sees it: with hubs, in topological order.
struct Problem {
  std::vector<Vertex> vertices;
  std::vector<Edge> edges;
  int kinds = 0;
  std::deque<graph::OpTraits> hub_traits;
};

/// A hub stands after every tensor with several consumers and after every pinned output: its strategy is where they
/// meet. The hub of a variable counts as the variable. Throws Error (internal) for a source without a layout.
Problem make_problem(const SolverInput& input);

/// Groups of operands that may be partial together: a partial operand is never saved, so nothing may read it in the
/// backward pass, and in a low-precision dtype no partial is added to anything.
std::vector<std::vector<int>> partial_groups(const Vertex& vertex);

}  // namespace tessera::partition
