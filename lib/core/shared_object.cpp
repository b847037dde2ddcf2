#include "core/shared_object.h"

#include <dlfcn.h>
#include <string>
#include <system_error>

#include "core/error.h"

namespace tessera {

std::filesystem::path shared_object_path(const std::filesystem::path& folder, const std::string& file) {
  std::error_code error;
  auto installed = folder.parent_path() / "lib/tessera" / file;
  if (!std::filesystem::exists(folder / file, error) && std::filesystem::exists(installed, error)) return installed;
  return folder / file;
}

void* open_shared_object(const char* file, const char* entry, const char* what, const char* libraries) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto path = error ? std::string(file) : shared_object_path(program.parent_path(), file).string();
  void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    const char* why = dlerror();
    fail(ExitCode::kConfig, "the {} backend cannot be opened ({}); install {}, or use device: cpu", what,
         why == nullptr ? path : why, libraries);
  }
  void* address = dlsym(object, entry);
  if (address == nullptr) fail(ExitCode::kConfig, "{} is not of this program's build; build both together", path);
  return address;
}

}  // namespace tessera
