#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "checkpoint/header.h"

namespace tessera::checkpoint {

/// Where a run stands.
struct Position {
  std::int64_t steps = 0;          // done
  std::int64_t epoch = 0;          // from 0
  std::int64_t step_in_epoch = 0;  // steps done in it
  std::int64_t skipped = 0;        // of the steps: those without an update, since gradients were not finite
  // What the epoch's mean loss is made of.
  double weighted_loss = 0, rows = 0;

  bool operator==(const Position&) const = default;
};

/// manifest.json of a checkpoint: what it is of, and how to know that it is whole.
struct Manifest {
  std::string version;                       // of the program
  std::string config;                        // the resolved YAML
  std::string device, mesh;                  // for people
  std::int64_t ranks = 1;                    // rows of the metrics' tensors
  std::map<std::string, std::string> order;  // what the order of the data follows from: seed, batch_size, ...
  std::string tuning;                        // the kernels' implementations in use
  Position position;
  struct Tensor {
    std::string form;  // form_of()
    std::uint64_t checksum = 0;
    bool operator==(const Tensor&) const = default;
  };
  std::map<std::string, Tensor> tensors;

  bool operator==(const Manifest&) const = default;
};

/// JSON of few levels; a discarded value for bad JSON, Error (checkpoint) naming `path` for deeper levels.
nlohmann::ordered_json parse_shallow(const std::string& text, const std::string& path);

/// "F32 (1024, 4096)"
std::string form_of(const TensorSpec& tensor);

std::string to_json(const Manifest& manifest);

/// Everything in it is doubted: Error (checkpoint) naming `path`.
Manifest parse_manifest(const std::string& json, const std::string& path);

}  // namespace tessera::checkpoint
