#include "config/scalar.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string>

namespace tessera::config {
namespace {

std::string_view without_sign(std::string_view text) {
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) text.remove_prefix(1);
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Moves past the digits in front; whether there were any.
bool skip_digits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const auto count = static_cast<std::size_t>(end - text.begin());
  text.remove_prefix(count);
  return count > 0;
}

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// 0x1F, 0o17: the base and the digits after the prefix; base 10 for all else.
std::pair<int, std::string_view> base_of(std::string_view text) {
  if (text.starts_with("0x")) return {16, text.substr(2)};
  if (text.starts_with("0o")) return {8, text.substr(2)};
  return {10, text};
}

bool is_int(std::string_view text) {
  const auto [base, digits] = base_of(text);
  if (base == 16)
    return !digits.empty() &&
           std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isxdigit(c); });
  if (base == 8)
    return !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '7'; });
  auto rest = without_sign(text);
  return skip_digits(rest) && rest.empty();
}

bool is_float(std::string_view text) {
  auto rest = without_sign(text);
  const bool before = skip_digits(rest);
  bool after = false;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    after = skip_digits(rest);
  }
  if (!before && !after) return false;
  if (rest.starts_with('e') || rest.starts_with('E')) {
    rest = without_sign(rest.substr(1));
    if (!skip_digits(rest)) return false;
  }
  return rest.empty();
}

}  // namespace

ScalarKind scalar_kind(std::string_view plain) {
  if (one_of(plain, {"", "~", "null", "Null", "NULL"})) return ScalarKind::kNull;
  if (one_of(plain, {"true", "True", "TRUE", "false", "False", "FALSE"})) return ScalarKind::kBool;
  if (is_int(plain)) return ScalarKind::kInt;
  if (is_float(plain)) return ScalarKind::kFloat;
  if (one_of(without_sign(plain), {".inf", ".Inf", ".INF"}) || one_of(plain, {".nan", ".NaN", ".NAN"}))
    return ScalarKind::kNotFinite;
  return ScalarKind::kText;
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  auto [base, digits] = base_of(text);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  std::int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  if (base_of(text).first != 10) {
    const auto value = parse_int(text);
    return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace tessera::config
