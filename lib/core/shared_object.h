#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// Where a shared object of this project lies for a program in `folder`: beside it, as built, else in ../lib/tessera,
/// as installed. Beside it, too, where it isn't at all.
std::filesystem::path shared_object_path(const std::filesystem::path& folder, const std::string& file);

/// Opens a shared object of this project (shared_object_path), and returns its function `entry`. It stays open.
/// Throws Error (config): why it can't be opened, and to install `libraries` or use device: cpu. `what`: "CUDA".
void* open_shared_object(const char* file, const char* entry, const char* what, const char* libraries);

/// What the function `entry` of a shared object returns: its table of entry points.
template <typename Backend>
const Backend* shared_object_entry(const char* file, const char* entry, const char* what, const char* libraries) {
  return reinterpret_cast<const Backend* (*)()>(open_shared_object(file, entry, what, libraries))();
}

}  // namespace tessera
