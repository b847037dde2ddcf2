#include "checkpoint/folders.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "checkpoint/file.h"
#include "core/checksum.h"
#include "core/error.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_", kPartial = ".partial";

std::string checksum_of(const std::string& text) {
  return checksum_text(checksum(text.data(), static_cast<std::int64_t>(text.size()), 1, 0)) + "\n";
}

/// The step of a name like step_000001200; -1 for others.
std::int64_t step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return -1;
  name.remove_prefix(kPrefix.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() ? step : -1;
}

void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) fail(ExitCode::kCheckpoint, "can't remove {}: {}", folder.string(), error.message());
}

/// All folders of the parent by name; none where it isn't there.
std::vector<std::string> names_in(const std::string& parent) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto it = fs::directory_iterator(parent, error); !error && it != fs::directory_iterator(); it.increment(error))
    names.push_back(it->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    fail(ExitCode::kCheckpoint, "{}: cannot be read: {}", parent, error.message());
  return names;
}

}  // namespace

std::string folder_of_step(const std::string& parent, std::int64_t step) {
  return fmt::format("{}/{}{:09}", parent, kPrefix, step);
}

std::string partial_folder_of_step(const std::string& parent, std::int64_t step) {
  return folder_of_step(parent, step) + std::string(kPartial);
}

std::vector<Folder> finished_folders(const std::string& parent) {
  std::vector<Folder> found;
  for (const auto& name : names_in(parent)) {
    const auto path = fs::path(parent) / name;
    std::error_code error;
    if (const auto step = step_of(name); step >= 0 && fs::exists(path / "DONE", error))
      found.push_back({path.string(), step});
  }
  std::sort(found.begin(), found.end(), [](const Folder& a, const Folder& b) { return a.step > b.step; });
  return found;
}

void remove_unfinished(const std::string& parent) {
  for (const auto& name : names_in(parent)) {
    const auto path = fs::path(parent) / name;
    std::error_code error;
    const bool partial = std::string_view(name).starts_with(kPrefix) && std::string_view(name).ends_with(kPartial);
    if (partial || (step_of(name) >= 0 && !fs::exists(path / "DONE", error))) remove_folder(path);
  }
}

std::vector<std::string> set_aside_later(const std::string& parent, std::int64_t step) {
  std::vector<std::string> aside;
  for (const auto& folder : finished_folders(parent)) {
    if (folder.step <= step) continue;
    aside.push_back(folder.path + ".aside");
    remove_folder(aside.back());
    rename_durably(folder.path, aside.back());
  }
  return aside;
}

// Without its DONE first: what is half removed is no checkpoint.
void remove_oldest(const std::string& parent, std::int64_t keep) {
  const auto folders = finished_folders(parent);
  for (auto k = static_cast<std::size_t>(keep); k < folders.size(); ++k) {
    std::error_code error;
    fs::remove(fs::path(folders[k].path) / "DONE", error);
    remove_folder(folders[k].path);
  }
}

std::vector<TensorSpec> Contents::tensors() const {
  auto all = model_.tensors();
  for (auto& tensor : optimizer_.tensors()) all.push_back(std::move(tensor));
  return all;
}

void Contents::require(const Manifest& manifest) const {
  const auto stored = tensors();
  if (stored.size() != manifest.tensors.size())
    fail(ExitCode::kCheckpoint, "{}: has {} tensors, its manifest names {}", folder_, stored.size(),
         manifest.tensors.size());
  for (const auto& tensor : stored) {
    const auto it = manifest.tensors.find(tensor.name);
    if (it == manifest.tensors.end() || it->second.form != form_of(tensor))
      fail(ExitCode::kCheckpoint, "{}: tensor '{}' is {}, its manifest says {}", folder_, tensor.name, form_of(tensor),
           it == manifest.tensors.end() ? "nothing of it" : it->second.form);
  }
}

void finish_folder(const std::string& parent, const Manifest& manifest, const std::vector<std::string>& index_names,
                   const std::vector<std::string>& indices) {
  const auto partial = partial_folder_of_step(parent, manifest.position.steps);
  const auto folder = folder_of_step(parent, manifest.position.steps);
  for (std::size_t k = 0; k < indices.size(); ++k) write_text_file(partial + "/" + index_names[k], indices[k]);
  const auto json = to_json(manifest);
  write_text_file(partial + "/manifest.json", json);
  Contents(partial).require(manifest);
  sync_folder(partial);
  remove_folder(folder);  // the same step, saved before
  rename_durably(partial, folder);
  write_text_file(folder + "/DONE.partial", checksum_of(json));  // a full disk leaves no empty DONE
  rename_durably(folder + "/DONE.partial", folder + "/DONE");
  const auto run = fs::path(parent).parent_path().string();  // of whose folders the first save makes one
  sync_folder(run.empty() ? "." : run);
}

std::string read_manifest_text(const std::string& folder) {
  const auto done = folder + "/DONE", path = folder + "/manifest.json";
  std::error_code error;
  if (!fs::is_directory(folder, error)) fail(ExitCode::kCheckpoint, "there is no folder '{}'", folder);
  if (!fs::exists(done, error)) fail(ExitCode::kCheckpoint, "{}: is no finished checkpoint: it has no DONE", folder);
  auto text = read_text_file(path);
  if (read_text_file(done) != checksum_of(text))
    fail(ExitCode::kCheckpoint, "{}: is not what DONE beside it says; it is damaged", path);
  return text;
}

Manifest read_manifest(const std::string& folder) {
  return parse_manifest(read_manifest_text(folder), folder + "/manifest.json");
}

std::int64_t free_space(const std::string& path) {
  std::error_code error;
  auto folder = fs::absolute(path, error);
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  const auto space = fs::space(folder, error);
  return error ? -1 : static_cast<std::int64_t>(space.available);
}

}  // namespace tessera::checkpoint
