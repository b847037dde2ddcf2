#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/header.h"
#include "checkpoint/reader.h"

namespace tessera::checkpoint {

/// Tensors over several safetensors files, each whole in one of them: Hugging Face's layout of large models, whose
/// libraries read it as it is.
struct ShardFile {
  std::string name;                 // "model-00001-of-00003.safetensors"
  std::vector<TensorSpec> tensors;  // in alphabetical order
};

/// Bytes that a file may have, but for a tensor that is larger by itself: what Hugging Face's libraries take.
inline constexpr std::int64_t kShardBytes = std::int64_t{5} << 30;

/// Alphabetical, a new file where the next tensor would make one too large. One file at least.
std::vector<ShardFile> split_into_files(std::vector<TensorSpec> tensors, const std::string& stem,
                                        std::int64_t most_bytes = kShardBytes);

/// `stem`.safetensors.index.json: {"metadata": {"total_size": ...}, "weight_map": {tensor: file}}.
std::string index_name(const std::string& stem);
std::string index_json(const std::vector<ShardFile>& files);

/// Tensors by name, wherever they lie: a .safetensors file, an index of several, or a folder with model.safetensors or
/// its index. Errors are Error (checkpoint) and name the file.
class TensorFiles {
 public:
  explicit TensorFiles(const std::string& path);
  /// The files of an index of another stem ("optimizer") in a folder.
  TensorFiles(const std::string& folder, const std::string& stem);

  const std::string& path() const { return path_; }
  std::vector<TensorSpec> tensors() const;
  bool has(const std::string& name) const { return places_.contains(name); }
  const StoredTensor& at(const std::string& name) const;

  /// Every wanted tensor must be there with its shape and a dtype that converts. Returns the names that nobody wanted.
  std::vector<std::string> require(const std::vector<TensorSpec>& wanted) const;

  /// As SafetensorsReader's.
  void read_box(const std::string& name, const Box& box, void* destination, DType as) const;
  void read_elements(const std::string& name, std::int64_t first, std::int64_t count, void* destination) const;

 private:
  void open(const std::string& path);
  void open_index(const std::string& path);
  const SafetensorsReader& file_of(const std::string& name) const;

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::map<std::string, std::size_t> places_;  // tensor -> index into files_
};

}  // namespace tessera::checkpoint
