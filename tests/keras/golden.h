#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "checkpoint/reader.h"
#include "config/node.h"

namespace tessera::keras {

/// A tensor of the golden data. Integers and booleans are kept as f32 values beside their dtype.
struct Tensor {
  Shape shape;
  DType dtype = DType::kF32;
  std::vector<float> values;
};

/// |a - b| <= absolute + relative |b|
struct Tolerance {
  double relative = 1e-5, absolute = 1e-5;
};

/// Differences between what was computed and what Keras computed; the first one is kept as a sentence.
class Comparison {
 public:
  void scalar(const std::string& what, double found, double expected, Tolerance tolerance);
  void tensor(const std::string& what, const std::vector<float>& found, const Tensor& expected, Tolerance tolerance);
  void fact(const std::string& what, bool holds);
  const std::string& fault() const { return fault_; }

 private:
  std::string fault_;
};

/// Counts the cases and prints those that fail or are skipped.
class Tally {
 public:
  /// Runs one case. A sentence from `skip` means that it is not ours to run.
  void run(const std::string& name, const std::optional<std::string>& skip,
           const std::function<void(Comparison&)>& body);
  /// "passed N, failed N, skipped N"; true if none failed. Throws where no case was found.
  bool finish() const;

 private:
  int passed_ = 0, failed_ = 0;
  std::vector<std::string> skipped_;
};

/// The folder of the golden data.
std::string folder();
bool exists(const std::string& name);
nlohmann::json read_json(const std::string& name);
/// Stems of the files NAME.json in a folder, or names of the folders in it, sorted. Empty if there is none.
std::vector<std::string> list(const std::string& kind);

Tensor read(const checkpoint::SafetensorsReader& file, const std::string& name);

/// {Name: config}; JSON is YAML.
config::Constructor constructor(const std::string& name, const nlohmann::json& config);

/// One function a kind of case. A kind that is absent is fine.
void run_layers(Tally& tally);
void run_losses(Tally& tally);
void run_metrics(Tally& tally);
void run_optimizers(Tally& tally);
void run_schedules(Tally& tally);
void run_initializers(Tally& tally);
void run_runs(Tally& tally);

}  // namespace tessera::keras
