#include "core/attributes.h"

#include <fmt/ranges.h>

#include "core/text.h"

namespace tessera {

Attributes::Attributes() = default;
Attributes::Attributes(std::initializer_list<std::pair<const std::string, Attribute>> items) : items_(items) {}
Attributes::Attributes(const Attributes& other) = default;
Attributes::Attributes(Attributes&& other) noexcept = default;
Attributes& Attributes::operator=(const Attributes& other) = default;
Attributes& Attributes::operator=(Attributes&& other) noexcept = default;
Attributes::~Attributes() = default;
bool Attributes::operator==(const Attributes& other) const = default;

bool Attributes::has(const std::string& name) const { return items_.contains(name); }

void Attributes::set(const std::string& name, Attribute value) { items_[name] = std::move(value); }

const Attribute& Attributes::find(const std::string& name) const {
  const auto it = items_.find(name);
  TESSERA_CHECK(it != items_.end(), "no attribute '{}'", name);
  return it->second;
}

void Attributes::fail_type(const std::string& name) {
  fail(ExitCode::kInternal, "internal error: attribute '{}' has another type", name);
}

std::string to_string(const Attributes& attributes) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : attributes.items())
    parts.push_back(std::visit([&name = name](const auto& v) { return fmt::format("{}={}", name, v); }, value));
  return "{" + join(parts) + "}";
}

}  // namespace tessera
