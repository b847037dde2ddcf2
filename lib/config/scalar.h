#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera::config {

/// What YAML 1.2's core schema makes of a plain scalar.
enum class ScalarKind : std::uint8_t { kNull, kBool, kInt, kFloat, kNotFinite, kText };
ScalarKind scalar_kind(std::string_view plain);

/// The value of a kInt (decimal, 0x, 0o); nothing if it doesn't fit.
std::optional<std::int64_t> parse_int(std::string_view text);

/// The value of a kInt or kFloat; nothing if it overflows or underflows.
std::optional<double> parse_number(std::string_view text);

}  // namespace tessera::config
