#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/error.h"

namespace tessera {

using Attribute = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// Named constants of an op or a kernel, in alphabetical order so that they print and hash the same everywhere.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Attribute>> items) : items_(items) {}

  bool has(const std::string& name) const { return items_.contains(name); }
  void set(const std::string& name, Attribute value) { items_[name] = std::move(value); }

  /// The value of a name that must be there with this type.
  template <typename T>
  const T& get(const std::string& name) const {
    const auto it = items_.find(name);
    TESSERA_CHECK(it != items_.end(), "no attribute '{}'", name);
    const T* value = std::get_if<T>(&it->second);
    TESSERA_CHECK(value != nullptr, "attribute '{}' has another type", name);
    return *value;
  }

  template <typename T>
  T get_or(const std::string& name, T fallback) const {
    return has(name) ? get<T>(name) : fallback;
  }

  const std::map<std::string, Attribute>& items() const { return items_; }
  bool operator==(const Attributes&) const = default;

 private:
  std::map<std::string, Attribute> items_;
};

/// "{alpha=0.2, transpose_b=true}"; floats with all digits.
std::string to_string(const Attributes& attributes);

}  // namespace tessera
