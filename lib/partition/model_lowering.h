#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "partition/assignment.h"
#include "partition/program.h"

namespace tessera::partition {

struct ModelLoweringOptions {
  std::int64_t micro_batches = 1;
  bool reduce_every_micro_batch = false;  // of GraphLowering::Options
};

/// Adds the programs of a model to a plan whose state is there: `name` ("train", "evaluate", "predict") with its
/// epilogues, and `name`.metrics where the model has metrics. `inputs` and `assignments`: the chosen strategies, by
/// program and program/epilogue. A metric's state gets its layout here.
void lower_model(Plan& plan, const std::string& name, const graph::Model& model,
                 const std::map<std::string, SolverInput>& inputs, const std::map<std::string, Assignment>& assignments,
                 const ModelLoweringOptions& options);

}  // namespace tessera::partition
