#pragma once

#include <cstdint>
#include <string>

namespace tessera::test {

/// A model, a mesh, layouts and a batch, as the YAML that a user would write, and what the YAML does not say.
struct Case {
  std::string model;         // model:, compile:, fit: - the same for all meshes
  std::string distribution;  // distribution: of the mesh under test
  int ranks = 1;
  std::int64_t batch = 0;      // rows of the batch before padding
  std::int64_t real_rows = 0;  // of the last, ragged batch
  std::int64_t classes = 0;    // of integer labels and ids; 0: none
  bool sample_weight = false;

  std::string yaml() const { return "version: 1\nseed: 7\n" + model + distribution; }
  std::string yaml_of_one_rank() const { return "version: 1\nseed: 7\n" + model; }
};

}  // namespace tessera::test
