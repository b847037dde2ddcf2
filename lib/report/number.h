#pragma once

#include <cmath>

#include <fmt/format.h>

namespace tessera::report {

/// A number as JSON: the shortest text that reads back as the same double; what is not finite is a string.
inline void append_number(fmt::memory_buffer& to, double value) {
  if (std::isfinite(value))
    fmt::format_to(std::back_inserter(to), "{}", value);
  else
    fmt::format_to(std::back_inserter(to), "\"{}\"", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

}  // namespace tessera::report
