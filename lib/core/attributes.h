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
/// Copied and destroyed in attributes.cpp: the map is what most files would spend most time on.
class Attributes {
 public:
  Attributes();
  Attributes(std::initializer_list<std::pair<const std::string, Attribute>> items);
  Attributes(const Attributes& other);
  Attributes(Attributes&& other) noexcept;
  Attributes& operator=(const Attributes& other);
  Attributes& operator=(Attributes&& other) noexcept;
  ~Attributes();

  bool has(const std::string& name) const;
  void set(const std::string& name, Attribute value);

  /// The value of a name that must be there with this type.
  template <typename T>
  const T& get(const std::string& name) const {
    const T* value = std::get_if<T>(&find(name));
    if (value == nullptr) fail_type(name);
    return *value;
  }

  template <typename T>
  T get_or(const std::string& name, T fallback) const {
    return has(name) ? get<T>(name) : fallback;
  }

  const std::map<std::string, Attribute>& items() const { return items_; }
  bool operator==(const Attributes& other) const;

 private:
  const Attribute& find(const std::string& name) const;
  [[noreturn]] static void fail_type(const std::string& name);

  std::map<std::string, Attribute> items_;
};

/// "{alpha=0.2, transpose_b=true}"; floats with all digits.
std::string to_string(const Attributes& attributes);

}  // namespace tessera
