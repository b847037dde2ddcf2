#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace tessera::report {

/// A number as JSON: the shortest text that reads back as the same double; what is not finite is a string.
inline void append_number(fmt::memory_buffer& to, double value) {
  if (std::isfinite(value))
    fmt::format_to(std::back_inserter(to), "{}", value);
  else
    fmt::format_to(std::back_inserter(to), "\"{}\"", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

/// "1 step", "2 steps"
inline std::string counted(std::int64_t count, const std::string& thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

}  // namespace tessera::report
