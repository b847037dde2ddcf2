#include "report/table.h"

#include <algorithm>
#include <cctype>
#include <ostream>

namespace tessera::report {

void Table::write(std::ostream& to) const {
  const auto columns = rows_.front().size();
  std::vector<std::size_t> widths(columns, 0);
  std::vector<bool> right(columns, true);
  for (std::size_t r = 0; r < rows_.size(); ++r)
    for (std::size_t c = 0; c < columns; ++c) {
      const auto& cell = rows_[r][c];
      widths[c] = std::max(widths[c], cell.size());
      if (r > 0 && !cell.empty() && !std::isdigit(static_cast<unsigned char>(cell[0]))) right[c] = false;
    }
  for (const auto& row : rows_) {
    std::string line = " ";
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      line += " " + (right[c] ? space + row[c] : row[c] + space) + (c + 1 < columns ? " " : "");
    }
    line.erase(line.find_last_not_of(' ') + 1);
    to << line << '\n';
  }
}

}  // namespace tessera::report
