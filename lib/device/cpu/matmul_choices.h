#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/shape.h"

namespace tessera::device::cpu {

using tessera::to_string;

/// y (m, n) = a b with k summed; transposed operands lie in memory as (k, m) and (n, k).
struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;

  auto operator<=>(const MatmulShape&) const = default;
};
std::string to_string(const MatmulShape& shape);  // "256x4096x1024 nt": m x n x k

/// Which implementation computes which shape: found by timing, equal on replicas, kept in a file.
class MatmulChoices {
 public:
  /// `machine`: the line that a file must begin with to be believed: processor, threads, library versions.
  explicit MatmulChoices(std::string machine = {}) : machine_(std::move(machine)) {}

  std::optional<std::string> find(const MatmulShape& shape) const;
  void set(const MatmulShape& shape, const std::string& implementation) { table_[shape] = implementation; }

  /// One line a shape. parse throws Error (internal) for text that is none.
  std::string text() const;
  void parse(const std::string& text);

  /// A file of another machine, or none, changes nothing. save replaces the file in one step; where that fails the
  /// choices are simply timed again next time.
  void load(const std::string& path);
  void save(const std::string& path) const;

 private:
  std::string machine_;
  std::map<MatmulShape, std::string> table_;
};

}  // namespace tessera::device::cpu
