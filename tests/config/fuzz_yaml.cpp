// Whatever the bytes: a Spec or an Error, never a crash; and what is resolved reads as itself.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "config/spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string resolved;
  try {
    resolved = config::parse_spec(text, "fuzz.yaml", {}).resolved;
  } catch (const Error&) {
    return 0;
  }
  if (config::parse_spec(resolved, "fuzz.yaml", {}).resolved == resolved) return 0;
  std::fprintf(stderr, "the resolved text reads as another one:\n%s", resolved.c_str());
  std::abort();
}
