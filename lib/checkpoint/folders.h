#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/shards.h"

// A checkpoint is a folder: model-*.safetensors and optimizer-*.safetensors with an index each, manifest.json, and
// DONE, which is written last and holds the manifest's checksum. A folder that is being written has another name.
namespace tessera::checkpoint {

struct Folder {
  std::string path;
  std::int64_t step = 0;
};

/// "parent/step_000001200"; while it is written "parent/step_000001200.partial".
std::string folder_of_step(const std::string& parent, std::int64_t step);
std::string partial_folder_of_step(const std::string& parent, std::int64_t step);

/// Those with a DONE, newest first. None where there is no parent.
std::vector<Folder> finished_folders(const std::string& parent);

/// Removes what a save that never ended has left.
void remove_unfinished(const std::string& parent);

/// Renames finished ones of later steps than `step` to step_N.aside: a run that goes on from there must not take them
/// for its own. Returns the new paths.
std::vector<std::string> set_aside_later(const std::string& parent, std::int64_t step);

/// Removes the oldest of the finished ones until `keep` are left.
void remove_oldest(const std::string& parent, std::int64_t keep);

/// Weights and optimizer state of a checkpoint together.
class Contents {
 public:
  explicit Contents(const std::string& folder)
      : folder_(folder), model_(folder, "model"), optimizer_(folder, "optimizer") {}

  const TensorFiles& files_of(const std::string& name) const { return model_.has(name) ? model_ : optimizer_; }
  bool has(const std::string& name) const { return model_.has(name) || optimizer_.has(name); }
  std::vector<TensorSpec> tensors() const;
  /// Throws Error (checkpoint) unless the tensors are those that the manifest names, in their forms.
  void require(const Manifest& manifest) const;

 private:
  std::string folder_;
  TensorFiles model_, optimizer_;
};

/// The indices and the manifest of a partial folder in which all tensors are; then its name, then DONE. Each is on the
/// disk before the next is begun, and all is read again as far as headers go. Errors are Error (checkpoint).
void finish_folder(const std::string& parent, const Manifest& manifest, const std::vector<std::string>& index_names,
                   const std::vector<std::string>& indices);

/// The text of the manifest of a folder with a DONE that agrees with it. Error (checkpoint) for anything else.
std::string read_manifest_text(const std::string& folder);
Manifest read_manifest(const std::string& folder);

/// Bytes that are free where a path lies, or will lie; -1: unknown.
std::int64_t free_space(const std::string& path);

}  // namespace tessera::checkpoint
