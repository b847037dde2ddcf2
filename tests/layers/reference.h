#pragma once

#include <fstream>

#include <nlohmann/json.hpp>

#include "config/node.h"
#include "core/error.h"

namespace tessera::layers {

/// A file of the project's copy of Keras's golden data.
inline nlohmann::json read_reference(const std::string& name) {
  std::ifstream file(TESSERA_SOURCE_DIR "/tests/reference_data/" + name);
  if (!file) fail(ExitCode::kInternal, "no reference file '{}'", name);
  return nlohmann::json::parse(file);
}

/// {Name: config}; JSON is YAML.
inline config::Node constructor_node(const std::string& name, const nlohmann::json& config) {
  return config::parse(nlohmann::json{{name, config}}.dump(), "reference");
}

}  // namespace tessera::layers
