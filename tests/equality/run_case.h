#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "equality/random_case.h"
#include "mesh/distribution.h"
#include "partition/plan.h"

namespace tessera::equality {

/// Global tensors by name.
using Tensors = std::map<std::string, std::vector<float>>;

struct Outcome {
  std::vector<double> losses;  // of each step
  Tensors gradients;           // of the first step
  Tensors weights;             // after the last
  /// What the ranks' collectives counted in all steps, of rank 0.
  comm::Counters counted;
};

/// A case made ready: its plan and the mesh that it is for.
struct Prepared {
  RandomCase random;
  mesh::Distribution distribution;
  partition::Plan plan;
};

/// Plans a text (RandomCase::yaml or yaml_of_one_rank) for `ranks`.
Prepared prepare(const RandomCase& random, const std::string& yaml, int ranks);

/// Trains `steps` steps on threads. Gradients and weights are put together from the ranks' boxes; copies that differ in
/// any bit are an Error.
Outcome run(const Prepared& prepared, int steps);

/// The largest difference relative to the largest element of its tensor, and where it is.
struct Difference {
  double worst = 0;
  std::string where = "nowhere";
};
Difference compare(const Outcome& one, const Outcome& other);

}  // namespace tessera::equality
