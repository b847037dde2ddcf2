#include "config/spec.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/error_text.h"
#include "core/text.h"

namespace tessera::config {
namespace {

constexpr auto kSeedMesh = R"(version: 1
name: mlp
seed: 42
output_dir: runs
device: auto
hardware: cpu

model:
  inputs: {x: {shape: [1024]}}
  layers:
    - Dense: {name: dense_1, units: 4096, activation: relu}
    - Dense: {name: dense_2, units: 10}

distribution:
  micro_batches: 2
  zero_stage: 1
  ModelParallel:
    mesh: {shape: [2, -1], axis_names: [batch, model]}
    batch_dim_name: batch
    layout_map:
      dense_1/kernel: [null, model]
      dense_1/bias: [model]
      dense_2/kernel: {layout: [[batch, model], null], if_indivisible: replicate}
    output_layout_map: {dense_1: [batch, model]}
    data_layout_map: {x: [batch, null]}
    unmatched_rules: warn

compile:
  optimizer: {Adam: {learning_rate: 0.001}}
  loss: mse
  metrics: [accuracy]

data:
  train: {npy: {x: x_train.npy, y: y_train.npy}}
  validation: {npy: {x: /abs/x_val.npy, y: ../y_val.npy}}
  test: {random: {samples: 100}}

fit:
  epochs: 5
  batch_size: 256
  shuffle: true
  remainder: pad
)";

constexpr auto kResidual = R"(
version: 1
name: functional_residual
model:
  load_weights: initial.safetensors
  inputs: {a: {shape: [12]}, b: {shape: [5]}}
  layers:
    - Dense: {name: stem, units: 16, activation: tanh, inputs: [a]}
    - LayerNormalization: {name: norm_1}
    - Repeat: {name: block, times: 2, layers: [{Dense: {units: 16}}, {Add: {inputs: [dense, input]}}]}
    - Add: {name: residual, inputs: [stem, block]}
    - Shared: {layer: norm_1, call: {training: false}}
    - Concatenate: {name: joined, inputs: [norm_1_1, b]}
    - LayerNormalization: {epsilon: 1.0e-05}
    - Dense: {name: prediction, units: 3, kernel_initializer: {RandomNormal: {stddev: 0.1, seed: null}}}
compile:
  optimizer: {RMSprop: {learning_rate: {CosineDecay: {initial_learning_rate: 0.01, decay_steps: 15, alpha: 0.1, warmup_target: 0.08, warmup_steps: 3}}, momentum: 0.5}}
  loss: {Huber: {delta: 0.8}}
  metrics: [mae]
  weighted_metrics: [mse]
data:
  train: {npy: {a: a.npy, b: b.npy, y: y.npy, sample_weight: w.npy}}
fit: {epochs: 3, batch_size: 24, shuffle: false, remainder: drop, steps_per_epoch: 4, validation_steps: null}
)";

std::string text(const std::vector<LayoutSpec>& layouts) {
  std::string result;
  for (const auto& layout : layouts) {
    result += layout.key + ":";
    for (const auto& axes : layout.dims) result += " (" + join(axes) + ")";
    result += layout.replicate_if_indivisible ? " or replicate; " : "; ";
  }
  return result;
}

std::string text(const Constructor& c) { return c.name + " " + to_yaml_line(c.arguments); }
std::string text(const std::vector<Constructor>& list) {
  std::string result;
  for (const auto& c : list) result += text(c) + "; ";
  return result;
}

/// Everything that a Spec means, without places.
std::string everything(const Spec& s) {
  std::string t = fmt::format("{} {} {} {} {}\n", s.name, s.seed, std::filesystem::absolute(s.output_dir).string(),
                              s.device, s.hardware);
  t += fmt::format("{} {} -> {}\n", s.model.name, s.model.load_weights, join(s.model.outputs));
  for (const auto& i : s.model.inputs) t += fmt::format("{} {} {}\n", i.name, to_string(i.shape), to_string(i.dtype));
  for (const auto& l : s.model.layers)
    t += fmt::format("{} {} ({}) {} {}\n", l.type, l.name, join(l.inputs), to_yaml_line(l.arguments),
                     to_yaml_line(l.call));
  const auto& d = s.distribution;
  t += fmt::format("{} {} [{}] [{}] {} [{}] {} {} {}\n", static_cast<int>(d.strategy), d.has_mesh,
                   fmt::join(d.mesh_shape, ", "), join(d.axis_names), d.has_batch_dim_name, join(d.batch_dim_names),
                   d.unmatched_rules_warn, d.micro_batches, d.zero_stage);
  t += text(d.layout_map) + "| " + text(d.output_layout_map) + "| " + text(d.data_layout_map) + "\n";
  t += fmt::format("{} {} {} {} {}\n", s.compile.present, text(s.compile.optimizer), text(s.compile.loss),
                   text(s.compile.metrics), text(s.compile.weighted_metrics));
  for (const auto& [name, data] : s.data) {
    t += fmt::format("{} {}:", name, data.random_samples);
    for (const auto& [key, file] : data.npy) t += fmt::format(" {}={}", key, file);
    t += "\n";
  }
  const auto& f = s.fit;
  return t + fmt::format("{} {} {} {} {} {} {}\n", f.epochs, f.batch_size, f.shuffle, static_cast<int>(f.remainder),
                         f.steps_per_epoch, f.validation_steps, f.validation_freq);
}

TEST(Spec, ReadsEveryKey) {
  const auto spec = parse_spec(kSeedMesh, "/folder/c.yaml", {});
  EXPECT_EQ(spec.name, "mlp");
  EXPECT_EQ(spec.seed, 42U);
  EXPECT_EQ(spec.hardware, "cpu");
  const auto& d = spec.distribution;
  EXPECT_EQ(d.strategy, DistributionSpec::Strategy::kModelParallel);
  EXPECT_EQ(d.mesh_shape, (std::vector<std::int64_t>{2, -1}));
  EXPECT_EQ(d.axis_names, (std::vector<std::string>{"batch", "model"}));
  EXPECT_EQ(d.batch_dim_names, std::vector<std::string>{"batch"});
  EXPECT_EQ(text(d.layout_map),
            "dense_1/kernel: () (model); dense_1/bias: (model); dense_2/kernel: (batch, model) () or replicate; ");
  EXPECT_EQ(d.layout_map.at(0).key_pos, (SourcePos{"/folder/c.yaml", 21, 7}));
  EXPECT_EQ(d.layout_map.at(0).pos, (SourcePos{"/folder/c.yaml", 21, 23}));
  EXPECT_EQ(text(d.output_layout_map), "dense_1: (batch) (model); ");
  EXPECT_EQ(text(d.data_layout_map), "x: (batch) (); ");
  EXPECT_TRUE(d.unmatched_rules_warn);
  EXPECT_EQ(d.micro_batches, 2);
  EXPECT_EQ(d.zero_stage, 1);
  EXPECT_EQ(spec.compile.optimizer.name, "Adam");
  EXPECT_EQ(spec.compile.metrics.at(0).name, "accuracy");
  EXPECT_EQ(spec.data.at("train").npy.at("x"), "/folder/x_train.npy");
  EXPECT_EQ(spec.data.at("validation").npy.at("x"), "/abs/x_val.npy");
  EXPECT_EQ(spec.data.at("validation").npy.at("y"), "/y_val.npy");
  EXPECT_EQ(spec.data.at("test").random_samples, 100);
  EXPECT_EQ(spec.fit.epochs, 5);
  EXPECT_EQ(spec.fit.batch_size, 256);
}

TEST(Spec, WhatIsAbsentHasItsDefault) {
  const auto spec = parse_spec("model: {inputs: {x: {shape: [4]}}, layers: [Dense]}", "some/tiny.yaml", {});
  EXPECT_EQ(spec.name, "tiny");
  EXPECT_EQ(spec.seed, 0U);
  EXPECT_EQ(spec.output_dir, "runs");
  EXPECT_EQ(spec.device, "auto");
  EXPECT_EQ(spec.hardware, "");
  EXPECT_EQ(spec.distribution.strategy, DistributionSpec::Strategy::kDataParallel);
  EXPECT_FALSE(spec.distribution.has_mesh);
  EXPECT_FALSE(spec.compile.present);
  EXPECT_TRUE(spec.data.empty());
  EXPECT_EQ(spec.fit.batch_size, 32);
  EXPECT_TRUE(spec.fit.shuffle);
}

TEST(Spec, BatchDimNameNullMeansNotSplit) {
  const std::string start =
      "model: {inputs: {x: {shape: [4]}}, layers: [Dense]}\n"
      "distribution: {ModelParallel: {mesh: {shape: [2, 2], axis_names: [replica, shard]}, layout_map: {}";
  const auto unset = parse_spec(start + "}}", "c.yaml", {}).distribution;
  EXPECT_FALSE(unset.has_batch_dim_name);
  const auto none = parse_spec(start + ", batch_dim_name: null}}", "c.yaml", {}).distribution;
  EXPECT_TRUE(none.has_batch_dim_name);
  EXPECT_TRUE(none.batch_dim_names.empty());
  const auto both = parse_spec(start + ", batch_dim_name: [replica, shard]}}", "c.yaml", {}).distribution;
  EXPECT_EQ(both.batch_dim_names, (std::vector<std::string>{"replica", "shard"}));
}

TEST(Spec, ResolvedReadsAsTheSameSpec) {
  for (const auto* source : {kSeedMesh, kResidual, "model: {inputs: {x: {shape: [4]}}, layers: [Dense]}"}) {
    const auto once = parse_spec(source, "folder/c.yaml", {});
    const auto twice = parse_spec(once.resolved, "/elsewhere/c.yaml", {});
    EXPECT_EQ(everything(twice), everything(once)) << once.resolved;
    EXPECT_EQ(twice.resolved, once.resolved);
  }
}

TEST(Spec, ResolvedHasDefaultsAndAbsolutePaths) {
  const auto resolved = parse_spec(kResidual, "/folder/c.yaml", {}).resolved;
  for (const auto* part :
       {"seed: 0", "validation_freq: 1", "load_weights: /folder/initial.safetensors", "a: /folder/a.npy",
        "name: layer_normalization", "outputs: [prediction]", "dtype: float32", "DataParallel: {}"})
    EXPECT_NE(resolved.find(part), std::string::npos) << part << " in\n" << resolved;
}

TEST(Spec, MissingFileIsASentence) {
  EXPECT_EQ(error_text([] { read_text("/nowhere/c.yaml"); }),
            "/nowhere/c.yaml: cannot be opened: No such file or directory");
  EXPECT_EQ(error_text([] { read_text("/tmp"); }), "/tmp: is a folder, expected a YAML file");
}

}  // namespace
}  // namespace tessera::config
