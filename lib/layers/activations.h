#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/fields.h"
#include "layers/builder.h"

namespace tessera::layers {

/// Keras's activation functions, by name or as {name: {argument: value}}; absent: linear. Error (config) with the
/// place.
Tensor apply_activation(Builder& b, Tensor x, const std::optional<config::Constructor>& activation);

/// All names.
std::vector<std::string> activation_names();

/// Name and fields of each, for the docs.
std::vector<std::pair<std::string, std::vector<config::FieldDoc>>> activation_docs();

}  // namespace tessera::layers
