#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "partition/assignment.h"
#include "partition/program_builder.h"

namespace tessera::partition {

/// Writes the instructions of a graph with chosen strategies: forward, then backward from the loss. One per graph and
/// program.
class GraphLowering {
 public:
  struct Options {
    std::int64_t micro_batches = 1;
    bool reduce_every_micro_batch = false;  // ZeRO-2 and -3: the gradient is never whole while it is accumulated
    Phase phase = Phase::kForward;
    std::string suffix = {};  // of the program's name in edge reports: "/apply"
  };

  GraphLowering(ProgramBuilder& builder, const SolverInput& input, const Assignment& assignment, Options options);

  /// What a source's value is. Every source of the graph must be bound before forward().
  void bind(int graph_node, int value) { sources_[graph_node] = value; }
  /// The result of a graph node goes into this value (an updated weight into its state) if the layouts agree.
  void place_result(int graph_node, int value) { placed_[graph_node] = value; }

  /// Nodes of the prologue go to `prologue`, once a micro-batch; all others to `body`.
  void forward(Section* prologue, Section* body);

  /// From d loss = 1. Gradients of the variables, by graph node, are complete when `body` (with micro-batches: and what
  /// this appends to `after`) has run.
  void backward(int loss_node, Section* prologue, Section* body, Section* after);
  const std::map<int, int>& gradients() const { return gradients_; }

  /// The value of a node's result, and its layout.
  int result(int graph_node) const { return results_.at(graph_node); }
  mesh::Layout result_layout(int graph_node) const;

 private:
  /// What the backward pass reads of an operand: the value kept, and the moves that are repeated on it.
  struct Saved {
    int value = -1;
    std::vector<Move> repeat;
    int edge = -1;
  };
  struct NodeState {
    std::vector<Saved> operands;
    std::map<std::string, int> saved;  // by the op's own names
    int result = -1;
  };

  void lower_node(int node);
  void lower_prologue_node(int node);
  int operand(int node, int k);
  int edge_report(int node, int k, const std::vector<Move>& moves);
  void run_backward(int node, int cotangent);
  void deliver(int node, int k, int cotangent);
  int sum_of(int node, const std::vector<int>& cotangents);
  bool is_variable(int solver_node) const;
  const graph::Node& graph_node(int node) const;
  const SolverNode& solver_node(int node) const { return assignment_.nodes[static_cast<std::size_t>(node)]; }
  const Strategy& strategy(int node) const { return *assignment_.chosen[static_cast<std::size_t>(node)]; }
  std::string operand_name(int node, int k) const;

  ProgramBuilder& builder_;
  const SolverInput& input_;
  const Assignment& assignment_;
  Options options_;
  std::map<int, int> sources_, placed_, results_, gradients_;
  std::vector<NodeState> states_;
  std::map<int, std::vector<int>> cotangents_;  // solver node -> what its consumers delivered
  std::vector<bool> in_prologue_;
  Section *prologue_ = nullptr, *body_ = nullptr, *after_ = nullptr;
};

}  // namespace tessera::partition
