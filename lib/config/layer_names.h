#pragma once

#include <string>

namespace tessera::config {

/// Keras's to_snake_case: LayerNormalization -> layer_normalization, Conv2D -> conv2d, ReLU -> re_lu.
std::string snake_case(const std::string& class_name);

}  // namespace tessera::config
