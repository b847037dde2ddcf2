#pragma once

namespace tessera {

/// Opens a shared object of this project that lies beside the program, and returns its function `entry`. It stays open.
/// Throws Error (config): why it can't be opened, and to install `libraries` or use device: cpu. `what`: "CUDA".
void* open_shared_object(const char* file, const char* entry, const char* what, const char* libraries);

/// What the function `entry` of a shared object returns: its table of entry points.
template <typename Backend>
const Backend* shared_object_entry(const char* file, const char* entry, const char* what, const char* libraries) {
  return reinterpret_cast<const Backend* (*)()>(open_shared_object(file, entry, what, libraries))();
}

}  // namespace tessera
