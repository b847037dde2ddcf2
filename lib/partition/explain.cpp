#include "partition/explain.h"

#include "partition/solver.h"

namespace tessera::partition {

void explain_edges(Plan& plan, const std::map<std::string, SolverInput>& inputs,
                   const std::map<std::string, Assignment>& assignments) {
  std::map<std::string, Solver> solvers;
  for (auto& edge : plan.edges) {
    const auto input = inputs.find(edge.program);
    const auto assignment = assignments.find(edge.program);
    if (input == inputs.end() || assignment == assignments.end()) continue;
    auto& solver = solvers.try_emplace(edge.program, input->second).first->second;
    edge.rejected = solver.alternative(assignment->second, edge.node, edge.operand).sentence;
  }
}

}  // namespace tessera::partition
