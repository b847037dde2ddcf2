#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/session.h"

namespace tessera::train {

/// One comparison: the largest difference of a tensor, and what rounding may make of it.
struct Difference {
  std::string what;  // "loss of step 1", "gradient of dense_1/kernel in step 1", "dense_1/kernel after 3 steps"
  double found = 0, allowed = 0;

  double ratio() const { return found / allowed; }
};

struct VerifyResult {
  std::vector<Difference> differences;  // the worst first
  bool equal() const { return differences.empty() || differences.front().ratio() <= 1; }
};

/// Trains `steps` steps on this mesh and, on rank 0, on one device, from the same values with the same batches, and
/// compares every loss, every gradient and the weights at the end; then the replicas among each other. What is allowed,
/// with n = rows of the batch + the largest dimension of a weight (the longest sum) and eps of float32 (2^-10 where
/// products run in tensorfloat32):
///   loss of step k         4 eps n k |loss|
///   gradient               4 eps n k max |gradient|                 =: d
///   weight                 4 eps n max |weight| + sum over steps of learning rate * max(d, min(2, 8 d / |gradient|))
/// because an optimizer that divides by the gradient's size makes a step of up to 2 learning rates of its noise.
/// Collective; the same result on all ranks. Whole variables pass through rank 0, one at a time.
VerifyResult verify(const config::Spec& spec, comm::World& world, const SessionOptions& options, std::int64_t steps);

}  // namespace tessera::train
