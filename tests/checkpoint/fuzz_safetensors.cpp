// Whatever the bytes of the file: its tensors are read, or an Error (checkpoint). The same bytes as a manifest.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  static const int file = ::memfd_create("fuzz", 0);
  const bool is_written = ::ftruncate(file, 0) == 0 && ::pwrite(file, data, size, 0) == static_cast<ssize_t>(size);
  if (!is_written) std::abort();
  try {
    const checkpoint::SafetensorsReader reader("/proc/self/fd/" + std::to_string(file));
    for (const auto& [name, tensor] : reader.tensors()) {
      std::vector<char> bytes(static_cast<std::size_t>(tensor.end - tensor.begin));
      reader.read_box(name, {Shape(tensor.shape.size(), 0), tensor.shape}, bytes.data(), tensor.dtype);
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kCheckpoint) std::abort();
  }
  try {
    checkpoint::parse_manifest({reinterpret_cast<const char*>(data), size}, "manifest.json");
  } catch (const Error& error) {
    if (error.code() != ExitCode::kCheckpoint) std::abort();
  }
  return 0;
}
