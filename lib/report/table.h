#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace tessera::report {

/// Rows of text in aligned columns. A column of which all cells but the head start with a digit is aligned right.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }
  void write(std::ostream& to) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tessera::report
