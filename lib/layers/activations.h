#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/builder.h"

namespace tessera::layers {

/// Keras's activation functions, by name or as {name: {argument: value}}; absent: linear. Error (config) with the
/// place.
Tensor apply_activation(Builder& b, Tensor x, const std::optional<config::Constructor>& activation);

/// All names, for the docs.
std::vector<std::string> activation_names();

}  // namespace tessera::layers
