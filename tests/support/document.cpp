#include "support/document.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace tessera::test {
namespace {

/// A document cut at one of its tables.
struct Document {
  std::string path, before, table, after;

  Document(const std::string& document, const std::string& name) : path(TESSERA_SOURCE_DIR "/docs/" + document) {
    std::stringstream stream;
    stream << std::ifstream(path).rdbuf();
    const auto text = stream.str();
    const auto begin = text.find("<!-- " + name + " -->\n"), end = text.find("<!-- end " + name + " -->\n");
    if (begin == std::string::npos || end == std::string::npos || end < begin) {
      ADD_FAILURE() << path << " has no place for the table '" << name << "'";
      return;
    }
    const auto first = text.find('\n', begin) + 1;
    before = text.substr(0, first);
    table = text.substr(first, end - first);
    after = text.substr(end);
  }

  void write(const std::string& changed) const {
    if (!after.empty()) std::ofstream(path) << before << changed << after;
  }
};

bool updates() { return std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr; }

constexpr auto kHow = "a change on purpose: run this test with TESSERA_UPDATE_GOLDEN=1";

}  // namespace

void expect_table(const std::string& document, const std::string& name, const std::string& text) {
  const Document d(document, name);
  if (updates()) return d.write(text);
  EXPECT_EQ(d.table, text) << d.path << ", table '" << name << "'; " << kHow;
}

void expect_row(const std::string& document, const std::string& name, const std::string& row) {
  const Document d(document, name);
  const auto key = row.substr(0, row.find('|', 1) + 1);
  const auto begin = d.table.find(key), end = begin == std::string::npos ? begin : d.table.find('\n', begin);
  const auto found = begin == std::string::npos ? "" : d.table.substr(begin, end - begin);
  if (!updates()) {
    EXPECT_EQ(found, row) << d.path << ", table '" << name << "'; " << kHow;
  } else {
    d.write(found.empty() ? d.table + row + "\n" : d.table.substr(0, begin) + row + d.table.substr(end));
  }
}

}  // namespace tessera::test
