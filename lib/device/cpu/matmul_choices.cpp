#include "device/cpu/matmul_choices.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>

#include "core/error.h"

namespace tessera::device::cpu {

std::string to_string(const MatmulShape& s) {
  return fmt::format("{}x{}x{} {}{}", s.m, s.n, s.k, s.transpose_a ? 't' : 'n', s.transpose_b ? 't' : 'n');
}

std::optional<std::string> MatmulChoices::find(const MatmulShape& shape) const {
  const auto it = table_.find(shape);
  return it == table_.end() ? std::nullopt : std::optional(it->second);
}

std::string MatmulChoices::text() const {
  std::string lines;
  for (const auto& [shape, implementation] : table_) lines += to_string(shape) + " " + implementation + "\n";
  return lines;
}

void MatmulChoices::parse(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    MatmulShape s;
    char times_1 = 0, times_2 = 0;
    std::string letters, name;
    std::istringstream words(line);
    words >> s.m >> times_1 >> s.n >> times_2 >> s.k >> letters >> name;
    TESSERA_CHECK(words && times_1 == 'x' && times_2 == 'x' && letters.size() == 2, "'{}' is no choice for a matmul",
                  line);
    s.transpose_a = letters[0] == 't';
    s.transpose_b = letters[1] == 't';
    table_[s] = name;
  }
}

void MatmulChoices::load(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != machine_) return;
  std::stringstream rest;
  rest << file.rdbuf();
  try {
    parse(rest.str());
  } catch (const Error&) {  // a damaged file is as good as none
    table_.clear();
  }
}

void MatmulChoices::save(const std::string& path) const {
  const auto part = fmt::format("{}.{}.part", path, getpid());
  {
    std::ofstream file(part);
    file << machine_ << "\n" << text();
    if (!file.flush()) {
      std::remove(part.c_str());
      return;
    }
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) std::remove(part.c_str());
}

}  // namespace tessera::device::cpu
