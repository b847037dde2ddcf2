#include "config/sections.h"

#include <algorithm>

namespace tessera::config {
namespace {

struct Keys {
  const char* section;
  std::vector<std::string> keys;

  bool has(const std::string& key) const { return std::find(keys.begin(), keys.end(), key) != keys.end(); }
};

const std::vector<Keys>& sections() {
  static const std::vector<Keys> kAll{
      {kTop,
       {"version", "name", "seed", "output_dir", "device", "cuda_graphs", "matmul_precision", "hardware", "model",
        "distribution", "compile", "data", "fit", "checkpoint", "resume"}},
      {"model", {"name", "inputs", "layers", "outputs", "load_weights"}},
      {"distribution", {"DataParallel", "ModelParallel", "micro_batches", "zero_stage"}},
      {"ModelParallel",
       {"mesh", "batch_dim_name", "layout_map", "output_layout_map", "data_layout_map", "unmatched_rules"}},
      {"compile", {"optimizer", "loss", "metrics", "weighted_metrics"}},
      {"data", {"train", "validation", "test"}},
      {"fit",
       {"epochs", "batch_size", "shuffle", "remainder", "steps_per_epoch", "validation_steps", "validation_freq",
        "skip_non_finite"}},
      {"checkpoint", {"every_steps", "every_minutes", "keep", "mb_per_s"}},
      {"resume", {"partial"}},
  };
  return kAll;
}

}  // namespace

void require_section_keys(const Node& map, const std::string& section) {
  const auto& all = sections();
  const auto own = std::find_if(all.begin(), all.end(), [&](const Keys& keys) { return keys.section == section; });
  TESSERA_CHECK(own != all.end(), "there is no section '{}'", section);
  for (const auto& entry : map.entries) {
    if (own->has(entry.key)) continue;
    const auto home = std::find_if(all.begin(), all.end(), [&](const Keys& keys) { return keys.has(entry.key); });
    if (home != all.end())
      fail_at(entry.pos, ExitCode::kConfig, "unknown key '{}' in {}; it belongs in {}", entry.key, section,
              home->section);
  }
  require_keys(map, own->keys, section);
}

}  // namespace tessera::config
