#include "report/table.h"

#include <sstream>

#include <gtest/gtest.h>

namespace tessera::report {
namespace {

TEST(Table, NumbersAreAlignedRightAndTextLeft) {
  Table table({"name", "bytes"});
  table.add({"a", "12"});
  table.add({"long", "3456"});
  std::ostringstream text;
  table.write(text);
  EXPECT_EQ(text.str(), "  name  bytes\n  a        12\n  long   3456\n");
}

}  // namespace
}  // namespace tessera::report
