#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/error.h"
#include "device/cuda.h"

namespace tessera::device {
namespace {

constexpr auto kFile = "libtessera_cuda.so";

/// The shared object lies beside the program.
std::string path_of_backend() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? kFile : (program.parent_path() / kFile).string();
}

const CudaBackend* open_backend() {
  const auto path = path_of_backend();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    fail(ExitCode::kConfig, "the CUDA backend cannot be opened ({}); install the CUDA libraries, or use device: cpu",
         why == nullptr ? path : why);
  }
  void* entry = dlsym(library, "tessera_cuda_backend");
  if (entry == nullptr) fail(ExitCode::kConfig, "{} is not this program's CUDA backend; build both together", path);
  return reinterpret_cast<const CudaBackend* (*)()>(entry)();
}

}  // namespace

const CudaBackend& cuda_backend() {
  static const CudaBackend* backend = open_backend();  // stays open; tried anew after a failure
  return *backend;
}

}  // namespace tessera::device
