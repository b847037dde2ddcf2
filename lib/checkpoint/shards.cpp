#include "checkpoint/shards.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "checkpoint/manifest.h"
#include "core/error.h"
#include "core/text.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

std::int64_t bytes_of(const TensorSpec& tensor) { return elements(tensor.shape) * size_of(tensor.dtype); }

}  // namespace

std::vector<ShardFile> split_into_files(std::vector<TensorSpec> tensors, const std::string& stem,
                                        std::int64_t most_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<ShardFile> files(1);
  std::int64_t bytes = 0;
  for (auto& tensor : tensors) {
    if (bytes > 0 && bytes + bytes_of(tensor) > most_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += bytes_of(tensor);
    files.back().tensors.push_back(std::move(tensor));
  }
  for (std::size_t k = 0; k < files.size(); ++k)
    files[k].name = fmt::format("{}-{:05}-of-{:05}.safetensors", stem, k + 1, files.size());
  return files;
}

std::string index_name(const std::string& stem) { return stem + ".safetensors.index.json"; }

std::string index_json(const std::vector<ShardFile>& files) {
  std::int64_t total = 0;
  nlohmann::json map = nlohmann::json::object();
  for (const auto& file : files)
    for (const auto& tensor : file.tensors) {
      total += bytes_of(tensor);
      map[tensor.name] = file.name;
    }
  return nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n";
}

TensorFiles::TensorFiles(const std::string& path) : path_(path) {
  std::error_code error;
  auto file = fs::path(path);
  if (fs::is_directory(path, error)) {
    file = fs::path(path) / "model.safetensors";
    if (!fs::exists(file, error)) file = fs::path(path) / index_name("model");
  }
  if (file.extension() == ".json")
    open_index(file.string());
  else
    open(file.string());
}

TensorFiles::TensorFiles(const std::string& folder, const std::string& stem) : path_(folder) {
  open_index((fs::path(folder) / index_name(stem)).string());
}

void TensorFiles::open(const std::string& path) {
  files_.push_back(std::make_unique<SafetensorsReader>(path));
  for (const auto& [name, tensor] : files_.back()->tensors()) places_.emplace(name, files_.size() - 1);
}

// An index is somebody's text: names of files in its own folder, and each tensor where it says.
void TensorFiles::open_index(const std::string& path) {
  const auto text = read_text_file(path);
  const auto json = parse_shallow(text, path);
  const auto bad = [&](const std::string& what) { fail(ExitCode::kCheckpoint, "{}: {}", path, what); };
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    bad("is no index of safetensors files: it has no weight_map");
  std::map<std::string, std::size_t> opened;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    const auto name = file.is_string() ? file.get<std::string>() : "";
    const bool plain = std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == '/'; });
    if (name.empty() || !plain) bad(fmt::format("what it says of '{}' is no file's name", tensor));
    if (!opened.contains(name)) {
      opened[name] = files_.size();
      files_.push_back(std::make_unique<SafetensorsReader>((fs::path(path).parent_path() / name).string()));
    }
    const auto where = opened[name];
    (void)files_[where]->at(tensor);
    places_[tensor] = where;
  }
}

const SafetensorsReader& TensorFiles::file_of(const std::string& name) const {
  const auto it = places_.find(name);
  if (it != places_.end()) return *files_[it->second];
  std::vector<std::string> names;
  for (const auto& [key, file] : places_) names.push_back(key);
  fail(ExitCode::kCheckpoint, "{}: has no tensor '{}'{}", path_, name, did_you_mean(name, names));
}

const StoredTensor& TensorFiles::at(const std::string& name) const { return file_of(name).at(name); }

std::vector<TensorSpec> TensorFiles::tensors() const {
  std::vector<TensorSpec> all;
  for (const auto& [name, file] : places_) all.push_back(at(name));
  return all;
}

std::vector<std::string> TensorFiles::require(const std::vector<TensorSpec>& wanted) const {
  std::set<std::string> names;
  for (const auto& spec : wanted) {
    const auto& file = file_of(spec.name);
    require_fit(file.path(), file.at(spec.name), spec);
    names.insert(spec.name);
  }
  std::vector<std::string> unwanted;
  for (const auto& [name, file] : places_)
    if (!names.contains(name)) unwanted.push_back(name);
  return unwanted;
}

void TensorFiles::read_box(const std::string& name, const Box& box, void* destination, DType as) const {
  file_of(name).read_box(name, box, destination, as);
}

void TensorFiles::read_elements(const std::string& name, std::int64_t first, std::int64_t count,
                                void* destination) const {
  file_of(name).read_elements(name, first, count, destination);
}

}  // namespace tessera::checkpoint
