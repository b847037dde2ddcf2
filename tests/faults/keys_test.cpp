// A key in the wrong place is never read as nothing: it is an error with its place.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text.h"
#include "layers/build.h"
#include "train/planning.h"

namespace tessera::faults {
namespace {

/// A config with a mark `<level>` in every mapping whose keys are fixed; a key is put where the mark stands.
constexpr auto kConfig = R"(<top> version: 1,
name: walk, seed: 1, output_dir: runs, device: cpu, hardware: cpu,
model: {<model> inputs: {x: {<input> shape: [8], dtype: float32}}, layers: [
  {Dense: {<layer Dense> name: dense_1, units: 8, kernel_initializer: {RandomNormal: {<initializer RandomNormal> stddev: 0.1}}}},
  {Dropout: {<layer Dropout> name: dropout, rate: 0.1}},
  {LayerNormalization: {<layer LayerNormalization> name: norm}},
  {Repeat: {<Repeat> name: block, times: 2, layers: [{Dense: {name: up, units: 8}}]}},
  {Sequential: {<Sequential> name: tail, layers: [{Dense: {name: down, units: 8}}]}},
  {Shared: {<Shared> layer: dense_1, name: again}},
  {Dense: {name: dense_2, units: 4}}], outputs: [dense_2]},
distribution: {<distribution> micro_batches: 1, zero_stage: 0, ModelParallel: {<ModelParallel>
  mesh: {<mesh> shape: [2], axis_names: [model]}, batch_dim_name: null,
  layout_map: {dense_2/kernel: {<rule> layout: [model, null], if_indivisible: replicate}},
  output_layout_map: {}, data_layout_map: {}, unmatched_rules: error}},
compile: {<compile> optimizer: {Adam: {<optimizer Adam> learning_rate: {ExponentialDecay: {<schedule ExponentialDecay>
  initial_learning_rate: 0.1, decay_steps: 10, decay_rate: 0.5}}}},
  loss: {Huber: {<loss Huber> delta: 0.5}}, metrics: [{MeanAbsoluteError: {<metric MeanAbsoluteError> name: mae}}],
  weighted_metrics: []},
data: {<data> train: {random: {<random> samples: 12}}, validation: {npy: {<npy> x: x.npy, y: y.npy}}},
fit: {<fit> epochs: 1, batch_size: 4, shuffle: true, remainder: pad}
)";

/// The keys that a level knows. Of a class: those of `trainer schema`.
std::map<std::string, std::set<std::string>> levels() {
  std::map<std::string, std::set<std::string>> keys{
      {"top",
       {"version", "name", "seed", "output_dir", "device", "hardware", "model", "distribution", "compile", "data",
        "fit"}},
      {"model", {"inputs", "layers", "outputs", "load_weights", "name"}},
      {"input", {"shape", "dtype"}},
      {"Repeat", {"name", "times", "layers", "inputs"}},
      {"Sequential", {"name", "layers", "inputs"}},
      {"Shared", {"name", "layer", "call", "inputs"}},
      {"distribution", {"DataParallel", "ModelParallel", "micro_batches", "zero_stage"}},
      {"ModelParallel",
       {"mesh", "batch_dim_name", "layout_map", "output_layout_map", "data_layout_map", "unmatched_rules"}},
      {"mesh", {"shape", "axis_names"}},
      {"rule", {"layout", "if_indivisible"}},
      {"compile", {"optimizer", "loss", "metrics", "weighted_metrics"}},
      {"data", {"train", "validation", "test"}},
      {"initializer RandomNormal", {"mean", "stddev", "seed"}},
      {"random", {"samples"}},
      {"npy", {"x", "y", "sample_weight"}},
      {"fit",
       {"epochs", "batch_size", "shuffle", "remainder", "steps_per_epoch", "validation_steps", "validation_freq"}}};
  for (const auto& doc : layers::schema()) {
    const auto level = doc.kind + " " + doc.name;
    if (std::string(kConfig).find("<" + level + ">") == std::string::npos) continue;
    for (const auto& field : doc.fields) keys[level].insert(field.name);
    if (doc.kind == "layer") keys[level].insert({"name", "inputs", "call"});
  }
  return keys;
}

/// The sentence of the config with `text` put at a level, "" if it is accepted.
std::string sentence_with(const std::string& level, const std::string& text) {
  std::string yaml = "{";
  for (std::string_view rest = kConfig; !rest.empty();) {
    const auto open = rest.find('<');
    yaml += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    const auto close = rest.find('>', open);
    if (rest.substr(open + 1, close - open - 1) == level) yaml += text;
    rest.remove_prefix(close + 1);
  }
  try {
    const auto spec = config::parse_spec(yaml + "}", "case.yaml", {});
    train::plan_run(spec, 2, {.programs = train::possible_programs(spec)});
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfig) << error.what();
    return error.what();
  }
}

/// The sentence is about the key and its place.
bool names(const std::string& sentence, const std::string& key) {
  return sentence.starts_with("case.yaml:") && sentence.find("'" + key + "'") != std::string::npos;
}

TEST(Faults, fault_34_the_config_that_is_walked_through_is_right) { EXPECT_EQ(sentence_with("none", ""), ""); }

TEST(Faults, fault_34_a_key_at_a_level_that_does_not_know_it_is_an_error_with_its_place) {
  std::set<std::string> all;
  for (const auto& [level, known] : levels()) all.insert(known.begin(), known.end());
  ASSERT_GE(all.size(), 80u);
  for (const auto& [level, known] : levels())
    for (const auto& key : all) {
      if (known.contains(key)) continue;
      const auto sentence = sentence_with(level, key + ": 1, ");
      EXPECT_TRUE(names(sentence, key)) << key << " in " << level << ": '" << sentence << "'";
      const auto says = [&](const char* words) { return sentence.find(words) != std::string::npos; };
      EXPECT_TRUE(says("did you mean") || says("takes ") || says("belongs in ")) << sentence;
    }
}

TEST(Faults, fault_34_a_misspelled_key_is_an_error_with_the_right_one_at_every_level) {
  for (const auto& [level, known] : levels())
    for (const auto& key : known) {
      if (key.size() < 4) continue;
      auto slip = key;
      std::swap(slip[key.size() - 2], slip[key.size() - 3]);
      if (slip == key) slip.pop_back();
      if (known.contains(slip)) continue;
      const auto sentence = sentence_with(level, slip + ": 1, ");
      EXPECT_TRUE(names(sentence, slip)) << sentence;
      EXPECT_NE(sentence.find("did you mean '" + key + "'?"), std::string::npos)
          << slip << " in " << level << ": '" << sentence << "'";
    }
}

TEST(Faults, fault_34_a_key_beside_a_class_is_an_error) {
  for (const auto* const beside : {"model: {inputs: {x: {shape: [8]}}, layers: [{Dense: {units: 4}, name: d}]}",
                                   "model: {inputs: {x: {shape: [8]}}, layers: [Dense], epochs: 3}"}) {
    try {
      config::parse_spec(beside, "case.yaml", {});
      ADD_FAILURE() << beside;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kConfig);
    }
  }
}

}  // namespace
}  // namespace tessera::faults
