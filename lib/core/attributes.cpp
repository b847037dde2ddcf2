#include "core/attributes.h"

#include <fmt/ranges.h>

#include "core/text.h"

namespace tessera {

std::string to_string(const Attributes& attributes) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : attributes.items())
    parts.push_back(std::visit([&name = name](const auto& v) { return fmt::format("{}={}", name, v); }, value));
  return "{" + join(parts) + "}";
}

}  // namespace tessera
