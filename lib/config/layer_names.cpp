#include "config/layer_names.h"

#include <cctype>

namespace tessera::config {
namespace {

bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }
bool is_lower(char c) { return std::islower(static_cast<unsigned char>(c)) != 0; }

/// re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
std::string split_words(const std::string& name) {
  std::string result;
  for (std::size_t i = 0; i < name.size();) {
    result += name[i++];
    if (i + 1 >= name.size() || !is_upper(name[i]) || !is_lower(name[i + 1])) continue;
    result += '_';
    do result += name[i++];
    while (i < name.size() && is_lower(name[i]));
  }
  return result;
}

/// re.sub("([a-z])([A-Z])", r"\1_\2", name)
std::string split_before_upper(const std::string& name) {
  std::string result;
  for (const char c : name) {
    if (is_upper(c) && !result.empty() && is_lower(result.back())) result += '_';
    result += c;
  }
  return result;
}

}  // namespace

std::string snake_case(const std::string& class_name) {
  auto result = split_before_upper(split_words(class_name));
  for (auto& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

}  // namespace tessera::config
