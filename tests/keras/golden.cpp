#include "keras/golden.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <fmt/format.h>

namespace tessera::keras {

void Comparison::scalar(const std::string& what, double found, double expected, Tolerance t) {
  if (!fault_.empty() || std::abs(found - expected) <= t.absolute + t.relative * std::abs(expected)) return;
  fault_ = fmt::format("{} is {}, Keras has {}", what, found, expected);
}

void Comparison::tensor(const std::string& what, const std::vector<float>& found, const Tensor& expected,
                        Tolerance tolerance) {
  fact(fmt::format("{} has {} elements, Keras's has {}", what, found.size(), expected.values.size()),
       found.size() == expected.values.size());
  for (std::size_t i = 0; i < found.size() && fault_.empty(); ++i)
    scalar(fmt::format("{}[{}]", what, i), found[i], expected.values[i], tolerance);
}

void Comparison::fact(const std::string& what, bool holds) {
  if (fault_.empty() && !holds) fault_ = what;
}

void Tally::run(const std::string& name, const std::optional<std::string>& skip,
                const std::function<void(Comparison&)>& body) {
  if (skip) {
    skipped_.push_back(name + ": " + *skip);
    return;
  }
  Comparison comparison;
  try {
    body(comparison);
  } catch (const std::exception& error) {
    comparison.fact(error.what(), false);
  }
  ++(comparison.fault().empty() ? passed_ : failed_);
  if (!comparison.fault().empty()) std::cout << "FAILED " << name << ": " << comparison.fault() << "\n";
}

bool Tally::finish() const {
  if (passed_ + failed_ + static_cast<int>(skipped_.size()) == 0)
    fail(ExitCode::kData, "there is no case in {}", folder());
  for (const auto& line : skipped_) std::cout << "skipped " << line << "\n";
  std::cout << "passed " << passed_ << ", failed " << failed_ << ", skipped " << skipped_.size() << std::endl;
  return failed_ == 0;
}

std::string folder() {
  const char* given = std::getenv("TESSERA_REFERENCE_DIR");
  return given != nullptr && *given != '\0' ? given : TESSERA_SOURCE_DIR "/tests/reference_data";
}

bool exists(const std::string& name) { return std::filesystem::exists(folder() + "/" + name); }

nlohmann::json read_json(const std::string& name) {
  std::ifstream file(folder() + "/" + name);
  if (!file) fail(ExitCode::kData, "{}/{} can't be read", folder(), name);
  return nlohmann::json::parse(file);
}

std::vector<std::string> list(const std::string& kind) {
  std::vector<std::string> names;
  if (!exists(kind)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder() + "/" + kind))
    if (entry.is_directory() || entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Tensor read(const checkpoint::SafetensorsReader& file, const std::string& name) {
  const auto& stored = file.at(name);
  Tensor tensor{stored.shape, stored.dtype, {}};
  const Box whole{Shape(stored.shape.size(), 0), stored.shape};
  const auto count = static_cast<std::size_t>(elements(stored.shape));
  tensor.values.resize(count);
  if (is_float(stored.dtype)) {
    file.read_box(name, whole, tensor.values.data(), DType::kF32);
  } else {
    std::vector<std::int32_t> integers(count);
    file.read_box(name, whole, integers.data(), DType::kI32);
    std::copy(integers.begin(), integers.end(), tensor.values.begin());
  }
  return tensor;
}

config::Constructor constructor(const std::string& name, const nlohmann::json& config) {
  return config::as_constructor(config::parse(nlohmann::json{{name, config}}.dump(), name), name);
}

}  // namespace tessera::keras
