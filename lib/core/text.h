#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Levenshtein distance: insertions, deletions and replacements of one character, and swaps of neighbours.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, if near enough to be what a person meant, or the only one with these initials.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "; did you mean 'x'?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// "1.50 MiB": binary units with three digits; bytes below 1024 as they are.
std::string human_bytes(double bytes);

/// "a, b, c"
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

}  // namespace tessera
