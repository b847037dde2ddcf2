#pragma once

#include <string>
#include <vector>

#include "support/run_case.h"

namespace tessera::faults {

/// A distribution and the ranks that it is for.
struct Mesh {
  int ranks = 1;
  std::string distribution;
};

/// The `distribution` of a ModelParallel mesh: "[2, 2]", "[data, model]", batch_dim_name, rules of the layout map in
/// braces, and further keys of ModelParallel.
Mesh model_parallel(int ranks, const std::string& shape, const std::string& axes, const std::string& batch,
                    const std::string& rules, const std::string& more = "");
Mesh data_parallel(int ranks);
/// The same with a ZeRO stage.
Mesh with_zero(Mesh mesh, int stage);

/// A case of layers in YAML's block style; optimizer and loss in flow style. 7 of its 10 rows are real.
test::Case make_case(const std::string& inputs, const std::string& layers, const std::string& loss = "mse",
                     const std::string& optimizer = "{SGD: {learning_rate: 0.05, momentum: 0.9}}");
test::Case on(test::Case given, const Mesh& mesh);

/// Three steps on one rank and on each mesh: losses, norms, gradients and weights must be equal.
void expect_equal_on(const test::Case& given, const std::vector<Mesh>& meshes, const test::Tensors& start = {});

/// How far the mesh is from one rank when the training step leaves out the all-reduces for which `left_out` holds (by
/// the instruction): shows that a comparison sees the mistake. Infinite where replicas differ.
double difference_without(const test::Case& given, const Mesh& mesh,
                          const std::function<bool(const partition::Instruction&)>& left_out,
                          const test::Tensors& start = {});

}  // namespace tessera::faults
