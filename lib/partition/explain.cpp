#include "partition/explain.h"

namespace tessera::partition {

void explain_edges(Plan& plan, const std::map<std::string, SolverInput>& inputs,
                   const std::map<std::string, Assignment>& assignments) {
  std::map<std::string, std::vector<std::vector<Alternative>>> found;
  for (const auto& [program, assignment] : assignments) found[program] = alternatives(inputs.at(program), assignment);
  for (auto& edge : plan.edges) {
    const auto& edges = found.at(edge.program);
    edge.rejected = edges[static_cast<std::size_t>(edge.node)][static_cast<std::size_t>(edge.operand)].sentence;
  }
}

}  // namespace tessera::partition
