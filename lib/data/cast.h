#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "data/npy.h"

namespace tessera::data {

/// Converts `count` elements. Returns the index of the first that does not fit, -1 if all do: a value out of the range
/// of an integer type, or not a whole number. Floats round to nearest; bool is "not 0".
std::int64_t cast(NpyType from, const void* in, DType to, void* out, std::int64_t count);

/// Whether a cast copies the bytes.
bool same_bytes(NpyType from, DType to);

/// One element as text, for messages.
std::string element_text(NpyType type, const void* element);

}  // namespace tessera::data
