#include <iostream>

#include "layers/build.h"
#include "verbs.h"

namespace tessera::trainer {

ExitCode schema(const Options&, comm::World& world) {
  if (world.rank() != 0) return ExitCode::kDone;
  std::string kind;
  for (const auto& c : layers::schema()) {
    if (c.kind != kind) std::cout << (kind.empty() ? "" : "\n") << c.kind << ":\n";
    kind = c.kind;
    std::cout << "  " << c.name << '\n';
    for (const auto& f : c.fields)
      std::cout << fmt::format("    {}: {}{}\n", f.name, f.type, f.fallback.empty() ? "" : " = " + f.fallback);
  }
  return ExitCode::kDone;
}

}  // namespace tessera::trainer
