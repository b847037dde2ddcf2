#pragma once

#include <string>

#include "config/node.h"

namespace tessera::config {

/// Applies `--set a.b.0.c=VALUE`: keys and list indices by dots, VALUE in YAML. A key is the longest one that is there
/// (so `layout_map.dense_.*/kernel` finds its rule), else up to the next dot; missing keys are made. What the value
/// says wrong later is reported at "--set a.b.0.c=VALUE". Throws Error (config).
void apply_override(Node& root, const std::string& text);

}  // namespace tessera::config
