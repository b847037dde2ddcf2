#pragma once

#include <map>
#include <optional>
#include <string>

namespace tessera::device {

/// Which implementation computes which problem: found by timing, equal on replicas, kept in a file. A problem is words
/// ("256x4096x1024 nt"), an implementation one word.
class Tuning {
 public:
  /// `machine`: the line that a file must begin with to be believed: processor, threads, library versions.
  explicit Tuning(std::string machine = {}) : machine_(std::move(machine)) {}

  std::optional<std::string> find(const std::string& problem) const;
  void set(const std::string& problem, const std::string& implementation) { table_[problem] = implementation; }

  /// One line a problem. parse throws Error (internal) for text that is none.
  std::string text() const;
  void parse(const std::string& text);

  /// A file of another machine, or none, changes nothing. save replaces the file in one step; where that fails the
  /// choices are simply timed again next time.
  void load(const std::string& path);
  void save(const std::string& path) const;

 private:
  std::string machine_;
  std::map<std::string, std::string> table_;
};

}  // namespace tessera::device
