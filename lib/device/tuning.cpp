#include "device/tuning.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>

#include "core/error.h"

namespace tessera::device {

std::optional<std::string> Tuning::find(const std::string& problem) const {
  const auto it = table_.find(problem);
  return it == table_.end() ? std::nullopt : std::optional(it->second);
}

std::string Tuning::text() const {
  std::string lines;
  for (const auto& [problem, implementation] : table_) lines += problem + " " + implementation + "\n";
  return lines;
}

void Tuning::parse(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto space = line.rfind(' ');
    TESSERA_CHECK(space != std::string::npos && space > 0 && space + 1 < line.size(), "'{}' is no line of a tuning",
                  line);
    table_[line.substr(0, space)] = line.substr(space + 1);
  }
}

void Tuning::load(const std::string& path) {
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

void Tuning::save(const std::string& path) const {
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

}  // namespace tessera::device
