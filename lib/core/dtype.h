#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

enum class DType : std::uint8_t { kF32, kF64, kBF16, kF16, kI32, kI64, kU8, kBool };

/// Bytes of one element.
std::int64_t size_of(DType dtype);

bool is_float(DType dtype);

/// Keras's names: float32, float64, bfloat16, float16, int32, int64, uint8, bool.
std::string to_string(DType dtype);

/// The inverse of to_string. Throws Error (config) for another name.
DType parse_dtype(std::string_view name);

}  // namespace tessera
