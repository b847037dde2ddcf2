#include "partition/assignment.h"

#include "core/error.h"
#include "partition/edge.h"

namespace tessera::partition {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

const std::vector<mesh::Axis>& order_of(const Assignment& a, int node) {
  return a.nodes[at(node)].order == Order::kActivation ? a.activation_order : a.variable_order;
}

std::size_t rank_of(const Assignment& a, int node) {
  return a.graph->node(a.nodes[at(node)].graph_node).shape().size();
}

std::vector<Move> checked(std::optional<std::vector<Move>> moves, const Assignment& a, int node) {
  TESSERA_CHECK(moves.has_value(), "a forbidden edge was chosen at {}",
                a.graph->node(a.nodes[at(node)].graph_node).name);
  return *std::move(moves);
}

}  // namespace

mesh::Layout Assignment::result_layout(int node) const {
  return to_layout(chosen[at(node)]->result, order_of(*this, node), rank_of(*this, node));
}

mesh::Layout Assignment::result_cotangent_layout(int node) const {
  return to_layout(chosen[at(node)]->result_cotangent, order_of(*this, node), rank_of(*this, node));
}

mesh::Layout Assignment::operand_layout(int node, int k) const {
  return to_layout(chosen[at(node)]->operands[at(k)], order_of(*this, node),
                   rank_of(*this, nodes[at(node)].args[at(k)]));
}

mesh::Layout Assignment::cotangent_layout(int node, int k) const {
  return to_layout(chosen[at(node)]->cotangents[at(k)], order_of(*this, node),
                   rank_of(*this, nodes[at(node)].args[at(k)]));
}

bool reads_operand(const Assignment& assignment, int node, int k) { return assignment.nodes[at(node)].reads[at(k)]; }

std::vector<Move> forward_moves(const SolverInput& input, const Assignment& assignment, int node, int k) {
  const auto from = assignment.nodes[at(node)].args[at(k)];
  const auto rights = edge_rights(*input.graph, assignment.nodes[at(from)], assignment.nodes[at(node)]);
  return checked(reshard(*input.mesh, assignment.result_layout(from), assignment.operand_layout(node, k),
                         rights.forward_pad, rights.forward_zero),
                 assignment, node);
}

std::vector<Move> backward_moves(const SolverInput& input, const Assignment& assignment, int node, int k) {
  const auto from = assignment.nodes[at(node)].args[at(k)];
  const auto rights = edge_rights(*input.graph, assignment.nodes[at(from)], assignment.nodes[at(node)]);
  return checked(reshard(*input.mesh, assignment.cotangent_layout(node, k), assignment.result_cotangent_layout(from),
                         rights.backward_partial, rights.backward_partial),
                 assignment, node);
}

}  // namespace tessera::partition
