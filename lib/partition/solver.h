#pragma once

#include <memory>
#include <optional>

#include "partition/assignment.h"

namespace tessera::partition {

/// Solves one input again and again, at other prices of memory. Strategies, moves and tables are kept, so that a
/// further solve takes milliseconds. The input must outlive it.
class Solver {
 public:
  explicit Solver(const SolverInput& input);
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  /// As the free function, at another price of a saved byte (femtoseconds).
  Assignment solve(double saved_byte_fs);
  Within solve_within(std::int64_t limit, const std::function<std::int64_t(const Assignment&)>& peak);

  std::vector<std::vector<Alternative>> alternatives(const Assignment& assignment);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::partition
