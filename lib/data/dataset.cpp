#include "data/dataset.h"

#include <algorithm>

#include "core/text.h"
#include "data/sources.h"

namespace tessera::data {
namespace {

std::vector<std::string> keys_of(const std::vector<Field>& fields) {
  std::vector<std::string> keys;
  keys.reserve(fields.size());
  for (const auto& field : fields) keys.push_back(field.key);
  return keys;
}

// The place of a key's path.
const SourcePos& place(const config::DataSpec& spec, const std::string& key) {
  const auto it = spec.npy_pos.find(key);
  return it == spec.npy_pos.end() ? spec.pos : it->second;
}

void check_keys(const config::DataSpec& spec, const std::vector<std::string>& wanted) {
  for (const auto& [key, path] : spec.npy) {
    if (key == "y" || key == "sample_weight" || std::find(wanted.begin(), wanted.end(), key) != wanted.end()) continue;
    fail_at(place(spec, key), ExitCode::kConfig, "the model has no input '{}'{} (data: {})", key,
            did_you_mean(key, wanted), join(wanted));
  }
  for (const auto& key : wanted)
    if (!spec.npy.contains(key))
      fail_at(spec.pos, ExitCode::kConfig, "the data lack '{0}', which the model needs; add `{0}: FILE.npy` to npy",
              key);
}

}  // namespace

Dataset::Dataset(const config::DataSpec& spec, std::vector<Field> fields, std::uint64_t seed)
    : fields_(std::move(fields)) {
  TESSERA_CHECK(!fields_.empty(), "a dataset without fields");
  if (spec.npy.empty()) {
    if (spec.random_samples < 1)
      fail_at(spec.pos, ExitCode::kConfig,
              "data need `npy: {{KEY: FILE.npy}}` or `random: {{samples: N}}`, N at least 1");
    for (const auto& field : fields_) sources_.push_back(random_source(spec.random_samples, field, seed, spec.pos));
    samples_ = spec.random_samples;
    return;
  }
  check_keys(spec, keys_of(fields_));
  for (const auto& field : fields_) {
    sources_.push_back(npy_source(spec.npy.at(field.key), field, place(spec, field.key)));
    samples_ = sources_.front()->samples();
    if (sources_.back()->samples() != samples_)
      fail_at(place(spec, field.key), ExitCode::kData, "'{}' has {} rows ({}), but '{}' has {} ({}); all need the same",
              field.key, sources_.back()->samples(), spec.npy.at(field.key), fields_.front().key, samples_,
              spec.npy.at(fields_.front().key));
  }
}

int Dataset::find(const std::string& key) const {
  for (std::size_t i = 0; i < fields_.size(); ++i)
    if (fields_[i].key == key) return static_cast<int>(i);
  return -1;
}

}  // namespace tessera::data
