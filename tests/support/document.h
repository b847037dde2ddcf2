#pragma once

#include <string>

// Tables of a document that a test keeps: between the lines `<!-- NAME -->` and `<!-- end NAME -->`. A change on
// purpose: with TESSERA_UPDATE_GOLDEN=1 the test writes the document anew, and git diff shows what has changed.
namespace tessera::test {

/// The table of docs/`document` has this text: lines that end with a newline.
void expect_table(const std::string& document, const std::string& name, const std::string& text);

/// One of its lines is this one: that which begins with the same cell. `row`: "| cell | ... |", without a newline.
void expect_row(const std::string& document, const std::string& name, const std::string& row);

}  // namespace tessera::test
