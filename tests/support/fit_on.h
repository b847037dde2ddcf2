#pragma once

#include <string>
#include <vector>

#include "support/history.h"
#include "support/run_case.h"

namespace tessera::test {

/// Trains a spec on threads; the history on rank 0.
History fit_on(int ranks, const config::Spec& spec, bool comm_thread = false);

/// A batch as all ranks have it together: the real rows of each input.
struct Batch {
  std::int64_t rows = 0;
  Tensors inputs;
  bool operator==(const Batch&) const = default;
};

/// The batches of the training data's first epochs, in the order of training.
std::vector<Batch> batches_on(int ranks, const config::Spec& spec, std::int64_t epochs);

}  // namespace tessera::test
