// Every mistake is an error that names its place: the exact sentences.
#include <gtest/gtest.h>

#include "config/spec.h"
#include "core/error_text.h"

namespace tessera::config {
namespace {

struct Case {
  std::string text, sentence;
};

std::string sentence_of(const std::string& text) {
  return error_text([&] { parse_spec(text, "c.yaml", {}); });
}

void expect_sentences(const std::string& before, const std::vector<Case>& cases, const std::string& after = "") {
  for (const auto& [text, sentence] : cases)
    EXPECT_EQ(sentence_of(before + text + after), "c.yaml:" + sentence) << text;
}

constexpr auto kModel = "model: {inputs: {x: {shape: [4]}}, layers: [Dense]}\n";

TEST(BadConfig, Top) {
  expect_sentences("", {
                           {"[1]", "1:1: the config must be a mapping, found a list"},
                           {"seed: 1", "1:1: the config needs 'model'"},
                           {"model:", "1:1: model must be a mapping, found null"},
                       });
  expect_sentences(
      kModel,
      {
          {"modle: 1", "2:1: unknown key 'modle' in the config; did you mean 'model'?"},
          {"nobody: {}",
           "2:1: unknown key 'nobody' in the config; it takes version, name, seed, output_dir, device, cuda_graphs, "
           "matmul_precision, hardware, model, distribution, compile, data, fit, checkpoint, resume"},
          {"checkpoint: {}", "2:13: checkpoint needs every_steps or every_minutes, or both"},
          {"checkpoint: {every_steps: 0}", "2:27: checkpoint: every_steps must be positive, found 0"},
          {"checkpoint: {every_step: 5}", "2:14: unknown key 'every_step' in checkpoint; did you mean 'every_steps'?"},
          {"checkpoint: {every_minutes: -1.5}", "2:29: checkpoint: every_minutes must be positive, found -1.5"},
          {"checkpoint: {every_steps: 5, keep: 0}", "2:36: checkpoint: keep must be positive, found 0"},
          {"resume: {partial: 3}", "2:19: resume.partial must be true or false, found 3"},
          {"resume: auto", "2:9: resume must be a mapping, found the text 'auto'"},
          {"cuda_graphs: maybe", "2:14: cuda_graphs must be true or false, found the text 'maybe'"},
          {"matmul_precision: bf8", "2:19: matmul_precision must be float32 or tensorfloat32, found 'bf8'"},
          {"version: 2", "2:10: version must be 1, found 2"},
          {"name: a/b", "2:7: name must be usable as a folder's name, found 'a/b'"},
          {"name: 5", "2:7: name must be text, found 5; in quotes it is text: '5'"},
          {"seed: -1", "2:7: seed must be at least 0, found -1"},
          {"seed: 0.5", "2:7: seed must be a whole number, found 0.5"},
          {"device: gpu", "2:9: device must be auto, cpu or cuda, found 'gpu'; did you mean 'cuda'?"},
          {"unmatched_rules: warn", "2:1: unknown key 'unmatched_rules' in the config; it belongs in ModelParallel"},
          {"device: cuad", "2:9: device must be auto, cpu or cuda, found 'cuad'"},
          {"output_dir: ''", "2:13: output_dir must be a path, found ''"},
          {"hardware: [cpu]", "2:11: hardware must be text, found a list"},
          {"seed: 1\nseed: 2", "3:1: key 'seed' is given twice; the first is at 2:1"},
          {"fit: {epochs: 1\n", "3:1: not YAML: end of map flow not found"},
      });
}

TEST(BadConfig, Inputs) {
  expect_sentences(
      "model: ",
      {
          {"{layers: [Dense]}", "1:8: model needs 'inputs', as in {x: {shape: [784]}}"},
          {"{inputs: {}, layers: [Dense]}",
           "1:17: inputs must be a mapping from names to shapes, as in {x: {shape: [784]}}; found an empty one"},
          {"{inputs: {x: [4]}, layers: [Dense]}", "1:21: input 'x' must be a mapping, found a list"},
          {"{inputs: {x: {}}, layers: [Dense]}", "1:18: input 'x' needs 'shape', as in {x: {shape: [784]}}"},
          {"{inputs: {x: {shape: 4}}, layers: [Dense]}",
           "1:29: the shape of input 'x' must be a list of sizes without the batch, found 4"},
          {"{inputs: {x: {shape: [null, 4]}}, layers: [Dense]}",
           "1:30: the shape of input 'x' must have known, positive sizes, found null"},
          {"{inputs: {x: {shape: [0]}}, layers: [Dense]}",
           "1:30: the shape of input 'x' must have known, positive sizes, found 0"},
          {"{inputs: {x: {shape: [4294967296, 4294967296]}}, layers: [Dense]}",
           "1:42: the shape of input 'x' has more than 2^48 elements"},
          {"{inputs: {x: {shape: [4], dtype: float23}}, layers: [Dense]}",
           "1:41: unknown dtype 'float23'; known: float32, float64, bfloat16, float16, int32, int64, uint8, bool"},
          {"{inputs: {x: {shap: [4]}}, layers: [Dense]}",
           "1:22: unknown key 'shap' in input 'x'; did you mean 'shape'?"},
          {"{inputs: {y: {shape: [4]}}, layers: [Dense]}",
           "1:18: 'y' is reserved for the data; choose another name for the input"},
          {"{inputs: {sample_weight: {shape: [4]}}, layers: [Dense]}",
           "1:18: 'sample_weight' is reserved for the data; choose another name for the input"},
          {"{inputs: {a/b: {shape: [4]}}, layers: [Dense]}",
           "1:18: an input's name may have letters, digits, '_', '.' and '-', found 'a/b'"},
          {"{inputs: {x: {shape: [4]}, b: {shape: [4]}}, layers: [{Dense: {inputs: [x]}}]}",
           "1:35: no layer reads the input 'b'"},
          {"{inputs: {x: {shape: [4]}, b: {shape: [4]}}, layers: [Dense]}",
           "1:62: the model has 2 inputs: say what 'dense' reads, as in inputs: [x]"},
      });
}

TEST(BadConfig, Layers) {
  expect_sentences(
      "model: {inputs: {x: {shape: [4]}}, layers: ",
      {
          {"[]", "1:44: layers of model must be a list of layers, found an empty one"},
          {"{Dense: {}}", "1:44: layers of model must be a list of layers, found a mapping"},
          {"[[Dense]]", "1:45: a layer must be a name or a mapping with one key, {Name: {arguments}}, found a list"},
          {"[{Dense: 4}]", "1:53: the arguments of Dense must be a mapping, found 4"},
          {"[{Dense: , units: 4}]", "1:55: 'units' stands beside Dense, not below it; indent the arguments further"},
          {"[{De/nse: {}}]", "1:46: a layer's class may have letters, digits, '_', '.' and '-', found 'De/nse'"},
          {"[{Dense: {name: a/b}}]", "1:60: name may have letters, digits, '_', '.' and '-', found 'a/b'"},
          {"[{Dense: {name: ''}}]", "1:60: name may have letters, digits, '_', '.' and '-', found ''"},
          {"[{Dense: {name: 'a b'}}]", "1:60: name may have letters, digits, '_', '.' and '-', found 'a b'"},
          {"[{Dense: {name: a}}, {Dense: {name: a}}]",
           "1:80: the name 'a' is taken, at c.yaml:1:60; give this one a `name` of its own"},
          {"[{Dense: {name: x}}]", "1:60: the name 'x' is taken, at c.yaml:1:18; give this one a `name` of its own"},
          {"[{Dense: {name: dense_1}}, Dense, Dense]",
           "1:78: the name 'dense_1' is taken, at c.yaml:1:60; give this one a `name` of its own"},
          {"[{Dense: {inputs: []}}]", "1:62: inputs must be a list of names, found an empty one"},
          {"[{Dense: {inputs: {a: b}}}]", "1:62: inputs must be a list of names, found a mapping"},
          {"[{Dense: {name: stem}}, {Dense: {inputs: [stm]}}]",
           "1:86: no layer or input is named 'stm'; did you mean 'stem'?"},
          {"[{Dense: {inputs: [b]}}, {Dense: {name: b}}]",
           "1:63: 'b' comes later; a layer can only read what stands above it"},
          {"[{Dense: {name: b, inputs: [b]}}]", "1:72: 'b' comes later; a layer can only read what stands above it"},
          {"[{Dense: {name: lost}}, {Dense: {inputs: [x]}}]",
           "1:46: no layer reads 'lost' and it is no output; remove it or list it in `outputs`"},
          {"[{Dense: {call: 5}}]", "1:60: call must be a mapping of keyword arguments, found 5"},
      },
      "}");
}

TEST(BadConfig, Blocks) {
  expect_sentences(
      "model: {inputs: {x: {shape: [4]}}, layers: ",
      {
          {"[{Repeat: {layers: [Dense]}}]",
           "1:46: Repeat needs 'times', as in Repeat: {name: block, times: 12, layers: [...]}"},
          {"[{Repeat: {times: 0, layers: [Dense]}}]", "1:62: times must be positive, found 0"},
          {"[{Repeat: {times: 2}}]", "1:46: Repeat needs 'layers'"},
          {"[{Repeat: {tims: 2}}]", "1:55: unknown key 'tims' in Repeat; did you mean 'times'?"},
          {"[{Repeat: {times: 2, layers: []}}]", "1:73: layers of Repeat must be a list of layers, found an empty one"},
          {"[{Repeat: {times: 1000000, layers: [Dense]}}]", "1:80: the model has more than 100000 layers"},
          {"[{Sequential: {times: 2, layers: [Dense]}}]",
           "1:59: unknown key 'times' in Sequential; it takes name, layers, inputs"},
          {"[{Sequential: {inputs: [x, x], layers: [Dense]}}]", "1:71: Sequential takes one input, found 2"},
          {"[{Sequential: {name: s, layers: [{Dense: {inputs: [s]}}]}}]",
           "1:95: 's' is the block around this layer; the block's own input is named 'input'"},
          {"[{Sequential: {layers: [{Dense: {name: input}}]}}]",
           "1:83: 'input' means the block's input inside a block; choose another name"},
          {"[{Dense: {name: input}}, {Sequential: {layers: [{Dense: {inputs: [input]}}]}}]",
           "1:110: 'input' is the block's input and also the name of what is declared at c.yaml:1:60; rename that"},
          {"[{Dense: {name: b_1}}, {Repeat: {name: b, times: 2, layers: [Dense]}}]",
           "1:83: the name 'b_1' is taken, at c.yaml:1:60; give this one a `name` of its own"},
          {"[{Sequential: {name: s, layers: [{Dense: {name: up}}]}}, {Dense: {inputs: [up]}}]",
           "1:119: no layer or input is named 'up'"},
          {"[Dense, Shared]", "1:52: Shared needs 'layer', the name of the layer to apply again"},
          {"[Dense, {Shared: {layer: x}}]", "1:69: 'x' is an input; Shared applies a layer again"},
          {"[{Sequential: {name: s, layers: [Dense]}}, {Shared: {layer: s}}]",
           "1:104: 's' is a block; Shared applies a layer again"},
          {"[Dense, {Shared: {layer: dense}}, {Shared: {layer: dense_1}}]",
           "1:95: 'dense_1' is itself a Shared; Shared applies a layer again"},
      },
      "}");
}

TEST(BadConfig, Outputs) {
  expect_sentences("model: {inputs: {x: {shape: [4]}}, layers: [{Dense: {name: a}}], ",
                   {
                       {"outputs: []", "1:75: outputs must be a list of names, found an empty one"},
                       {"outputs: [b]", "1:76: no layer or input is named 'b'"},
                       {"outputs: [x]", "1:76: the output 'x' is an input; an output is a layer"},
                       {"outputs: [a, a]", "1:79: the output 'a' is given twice"},
                       {"load_weights: 5", "1:80: load_weights must be text, found 5; in quotes it is text: '5'"},
                   },
                   "}");
}

TEST(BadConfig, Distribution) {
  const std::string mesh = "mesh: {shape: [2], axis_names: [m]}";
  expect_sentences(
      std::string(kModel) + "distribution: ",
      {
          {"DataParalel", "2:15: distribution must be DataParallel or ModelParallel, found 'DataParalel'"},
          {"[DataParallel]", "2:15: distribution must be a mapping, found a list"},
          {"ModelParallel",
           "2:15: ModelParallel needs 'mesh', as in ModelParallel: {mesh: {shape: [2, 4], axis_names: [batch, model]}, "
           "layout_map: {...}}"},
          {"{DataParallel: , ModelParallel: }", "2:15: distribution is DataParallel or ModelParallel, not both"},
          {"{micro_batches: 0}", "2:31: micro_batches must be positive and below 1000000000, found 0"},
          {"{micro_batches: 9223372036854775807}",
           "2:31: micro_batches must be positive and below 1000000000, found 9223372036854775807"},
          {"{zero_stage: 4}", "2:28: zero_stage must be 0, 1, 2 or 3, found 4"},
          {"{micro_batch: 2}", "2:16: unknown key 'micro_batch' in distribution; did you mean 'micro_batches'?"},
          {"{DataParallel: {layout_map: {}}}", "2:31: unknown key 'layout_map' in DataParallel; it takes mesh"},
          {"{DataParallel: {mesh: [2]}}", "2:37: mesh must be a mapping, found a list"},
          {"{DataParallel: {mesh: {shape: [2]}}}",
           "2:37: mesh needs 'axis_names', as in {shape: [2, -1], axis_names: [batch, model]}"},
          {"{DataParallel: {mesh: {shape: 2, axis_names: [b]}}}", "2:45: mesh shape must be a list of sizes, found 2"},
          {"{DataParallel: {mesh: {shape: [two], axis_names: [b]}}}",
           "2:46: a size of the mesh must be a whole number, found the text 'two'"},
          {"{DataParallel: {mesh: {shape: [2], axis_names: b}}}",
           "2:62: axis_names must be a list, found the text 'b'"},
          {"{ModelParallel: {" + mesh + "}}",
           "2:31: ModelParallel needs 'layout_map', as in ModelParallel: {mesh: {shape: [2, 4], axis_names: [batch, "
           "model]}, "
           "layout_map: {...}}"},
          {"{ModelParallel: {" + mesh + ", layout_map: {k: m}}}",
           "2:85: the layout of 'k' must be a list with one entry for each dimension, as in [null, model]; found the "
           "text 'm'"},
          {"{ModelParallel: {" + mesh + ", layout_map: [k]}}",
           "2:81: layout_map must be a mapping from names to layouts, found a list"},
          {"{ModelParallel: {" + mesh + ", layout_map: {k: [None]}}}",
           "2:86: a dimension in the layout of 'k' is 'None'; YAML's word for it is null"},
          {"{ModelParallel: {" + mesh + ", layout_map: {k: [1]}}}",
           "2:86: a dimension in the layout of 'k' must be text, found 1; in quotes it is text: '1'"},
          {"{ModelParallel: {" + mesh + ", layout_map: {k: {if_indivisible: replicate}}}}",
           "2:85: the rule 'k' needs 'layout', as in {layout: [null, model]}"},
          {"{ModelParallel: {" + mesh + ", layout_map: {k: {layout: [m], if_indivisible: pad}}}}",
           "2:115: if_indivisible must be replicate or error, found 'pad'"},
          {"{ModelParallel: {" + mesh + ", layout_map: {k: [m], k: [m]}}}",
           "2:90: key 'k' is given twice; the first is at 2:82"},
          {"{ModelParallel: {" + mesh + ", layout_map: {}, unmatched_rules: ignore}}",
           "2:102: unmatched_rules must be error or warn, found 'ignore'"},
      });
}

TEST(BadConfig, CompileDataFit) {
  expect_sentences(
      kModel,
      {
          {"compile: {loss: mse}", "2:10: compile needs 'optimizer'"},
          {"compile: {optimizer: adam}", "2:10: compile needs 'loss'"},
          {"compile: {optimizer: adam, loss: mse, metric: []}",
           "2:39: unknown key 'metric' in compile; did you mean 'metrics'?"},
          {"compile: {optimizer: adam, loss: mse, metrics: mae}",
           "2:48: metrics must be a list, as in [accuracy], found the text 'mae'"},
          {"compile: {optimizer: 5, loss: mse}", "2:22: optimizer must be text, found 5; in quotes it is text: '5'"},
          {"data: {trian: {}}", "2:8: unknown key 'trian' in data; did you mean 'train'?"},
          {"data: {train: {}}", "2:15: data.train needs {npy: {x: FILE, y: FILE}} or {random: {samples: N}}"},
          {"data: {train: {npy: {x: a, y: b}, random: {samples: 1}}}",
           "2:35: data.train has 'npy' and 'random'; only one of them can be given"},
          {"data: {train: {csv: {}}}", "2:16: unknown key 'csv' in data.train; it takes npy, random"},
          {"data: {train: {npy: {y: y.npy}}}", "2:21: data.train has no file for the input 'x'"},
          {"data: {train: {npy: {x: x.npy, z: z.npy}}}",
           "2:32: unknown key 'z' in data.train.npy; it takes x, y, sample_weight"},
          {"data: {train: {npy: {x: ''}}}", "2:25: the file of 'x' must be a path, found ''"},
          {"data: {train: {random: {}}}", "2:24: data.train.random needs 'samples'"},
          {"data: {train: {random: {samples: 0}}}", "2:34: samples must be positive and at most 2^48, found 0"},
          {"data: {train: {random: {samples: 9223372036854775807}}}",
           "2:34: samples must be positive and at most 2^48, found 9223372036854775807"},
          {"fit: 5", "2:6: fit must be a mapping, found 5"},
          {"fit: {epochs: -1}", "2:15: fit: epochs must be positive and below 1000000000, found -1"},
          {"fit: {batch_size: 9223372036854775807}",
           "2:19: fit: batch_size must be positive and below 1000000000, found 9223372036854775807"},
          {"fit: {batch_size: 1e3}", "2:19: fit: batch_size must be a whole number, found 1e3"},
          {"fit: {shuffle: yes}", "2:16: fit: shuffle must be true or false, found the text 'yes'"},
          {"fit: {remainder: keep}", "2:18: fit: remainder must be one of pad, drop, error, found the text 'keep'"},
          {"fit: {steps_per_epoch: 0}", "2:24: fit: steps_per_epoch must be positive and below 1000000000, found 0"},
          {"fit: {callbacks: []}",
           "2:7: unknown key 'callbacks' in fit; it takes epochs, batch_size, shuffle, remainder, steps_per_epoch, "
           "validation_steps, validation_freq, skip_non_finite"},
          {"fit: {skip_non_finite: 2}\ndistribution: {micro_batches: 2}",
           "2:6: fit.skip_non_finite does not go with distribution.micro_batches > 1: their gradients are summed "
           "together "
           "with the update"},
      });
}

TEST(BadConfig, ExitsWithTheConfigCode) {
  try {
    parse_spec("seed: 1", "c.yaml", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfig);
  }
}

}  // namespace
}  // namespace tessera::config
