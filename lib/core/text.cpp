#include "core/text.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>

namespace tessera {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      cost[i][j] =
          std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

namespace {

constexpr std::size_t kLongestWord = 1000;  // longer ones are no slip of the finger, and the table is quadratic

/// "lr" of "learning_rate", "" of a single word.
std::string initials(std::string_view name) {
  std::string letters;
  for (std::size_t i = 0; i < name.size(); i = std::min(name.find('_', i), name.size() - 1) + 1) letters += name[i];
  return letters.size() > 1 ? letters : "";
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  // A third of the letters may differ, and at most three: a word that shares its first half is another one.
  int least = std::min(std::clamp(static_cast<int>(word.size()) / 3, 1, 3) + 1, static_cast<int>(word.size()));
  for (const auto& candidate : candidates) {
    const auto difference = static_cast<std::ptrdiff_t>(word.size()) - static_cast<std::ptrdiff_t>(candidate.size());
    if (std::abs(difference) >= least || word.size() > kLongestWord) continue;
    const int d = edit_distance(word, candidate);
    if (d < least) {
      least = d;
      best = candidate;
    }
  }
  const auto abbreviated = [&](const std::string& candidate) { return initials(candidate) == word; };
  if (!best && std::count_if(candidates.begin(), candidates.end(), abbreviated) == 1)
    best = *std::find_if(candidates.begin(), candidates.end(), abbreviated);
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto best = nearest(word, candidates);
  return best ? fmt::format("; did you mean '{}'?", *best) : "";
}

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

}  // namespace tessera
