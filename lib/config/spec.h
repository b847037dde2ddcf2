#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/node.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace tessera::config {

/// A layer as it is written; lib/layers knows its arguments. Repeat and Sequential are already unfolded: `name` is the
/// whole path.
struct LayerSpec {
  std::string type;                 // "Dense"; "Shared"
  std::string name;                 // path; given or made as Keras does (dense, dense_1, ...)
  std::vector<std::string> inputs;  // names of layers or model inputs, resolved: never empty
  Node arguments;                   // without name and inputs
  Node call;                        // keyword arguments of the call, or null
  SourcePos pos;
};

struct InputSpec {
  std::string name;
  Shape shape;  // without the batch
  DType dtype = DType::kF32;
  SourcePos pos;
};

struct ModelSpec {
  std::string name;
  std::vector<InputSpec> inputs;
  std::vector<LayerSpec> layers;
  std::vector<std::string> outputs;  // names of layers
  std::string load_weights;          // absolute path or ""
  SourcePos pos, load_weights_pos;
};

/// One dimension of a layout: the axes that split it, in the user's order.
using AxisNames = std::vector<std::string>;
struct LayoutSpec {
  std::string key;  // variable path or regular expression; layer or input name
  std::vector<AxisNames> dims;
  bool replicate_if_indivisible = false;
  SourcePos pos, key_pos;
};

struct DistributionSpec {
  enum class Strategy : std::uint8_t { kDataParallel, kModelParallel };
  Strategy strategy = Strategy::kDataParallel;
  bool has_mesh = false;
  std::vector<std::int64_t> mesh_shape;  // one may be -1
  std::vector<std::string> axis_names;
  bool has_batch_dim_name = false;           // else: the first axis
  std::vector<std::string> batch_dim_names;  // empty if null was written
  std::vector<LayoutSpec> layout_map, output_layout_map, data_layout_map;
  bool unmatched_rules_warn = false;
  std::int64_t micro_batches = 1;
  int zero_stage = 0;
  SourcePos pos, mesh_pos, batch_dim_name_pos;
};

struct CompileSpec {
  Constructor optimizer, loss;
  std::vector<Constructor> metrics, weighted_metrics;
  bool present = false;  // predict needs none
};

struct DataSpec {
  std::map<std::string, std::string> npy;  // key -> absolute path
  std::map<std::string, SourcePos> npy_pos;
  std::int64_t random_samples = 0;  // instead of npy
  SourcePos pos;
};

struct FitSpec {
  std::int64_t epochs = 1;
  std::int64_t batch_size = 32;  // global
  bool shuffle = true;
  enum class Remainder : std::uint8_t { kPad, kDrop, kError } remainder = Remainder::kPad;
  std::int64_t steps_per_epoch = 0;  // 0: all
  std::int64_t validation_steps = 0;
  std::int64_t validation_freq = 1;
  std::int64_t skip_non_finite = 0;  // updates in a row that are left out where gradients are not finite
  SourcePos pos;
};

/// When checkpoints are saved; one at the end of training too.
struct CheckpointSpec {
  bool present = false;
  std::int64_t every_steps = 0;  // 0: not by steps
  double every_minutes = 0;      // 0: not by the clock
  std::int64_t keep = 3;         // the newest
  double mb_per_s = 0;           // megabytes a second that a rank writes at most; 0: no limit
  SourcePos pos;
};

struct ResumeSpec {
  bool partial = false;  // a checkpoint of another model or optimizer gives what fits
};

struct Spec {
  std::string file;  // as given; for messages
  std::string name;
  std::uint64_t seed = 0;
  std::string output_dir = "runs";
  std::string device = "auto";
  bool cuda_graphs = false;
  enum class MatmulPrecision : std::uint8_t { kFloat32, kTensorFloat32 } matmul_precision = MatmulPrecision::kFloat32;
  std::string hardware;  // "" if not given
  SourcePos pos, device_pos, cuda_graphs_pos, hardware_pos;
  ModelSpec model;
  DistributionSpec distribution;
  CompileSpec compile;
  std::map<std::string, DataSpec> data;  // train, validation, test
  FitSpec fit;
  CheckpointSpec checkpoint;
  ResumeSpec resume;
  std::string resolved;  // the YAML with all defaults and absolute paths
};

/// Reads a text with overrides "fit.epochs=1" applied first. `file` gives the folder that paths are relative to.
/// Throws Error (config). Classes of layers, losses, ... are checked by lib/layers, the mesh by lib/mesh.
Spec parse_spec(const std::string& text, const std::string& file, const std::vector<std::string>& overrides);

/// The text of a file; Error (config) if it can't be read.
std::string read_text(const std::string& file);

}  // namespace tessera::config
