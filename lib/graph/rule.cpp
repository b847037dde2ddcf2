#include "graph/rule.h"

#include <algorithm>

#include "core/error.h"

namespace tessera::graph {
namespace {

/// "bs(gr)e" -> {"b", "s", "gr", "e"}
TensorFactors parse_tensor(const std::string& text) {
  TensorFactors dims;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '(') {
      dims.emplace_back(1, text[i]);
      continue;
    }
    const auto close = text.find(')', i);
    TESSERA_CHECK(close != std::string::npos && close > i + 1, "rule part '{}'", text);
    dims.push_back(text.substr(i + 1, close - i - 1));
    i = close;
  }
  return dims;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// The one factor of a dimension that has no size yet gets what is left; all together must give `size`.
void fit(const DimFactors& factors, std::int64_t size, const std::string& text, std::map<char, std::int64_t>& sizes) {
  std::int64_t known = 1;
  char open = 0;
  int open_count = 0;
  for (const char f : factors) {
    if (sizes.contains(f)) {
      known *= sizes.at(f);
    } else {
      open = f;
      ++open_count;
    }
  }
  TESSERA_CHECK(open_count <= 1, "rule '{}': sizes of ({}) are open", text, factors);
  if (open_count == 1) {
    TESSERA_CHECK(known > 0 && size % known == 0, "rule '{}': ({}) is not {}", text, factors, size);
    sizes[open] = size / known;
  } else {
    TESSERA_CHECK(known == size, "rule '{}': ({}) is {}, not {}", text, factors, known, size);
  }
}

}  // namespace

Rule parse_rule(const std::string& text, const std::vector<Shape>& operands, std::map<char, std::int64_t> sizes) {
  std::string compact = text;
  std::erase(compact, ' ');
  const auto clauses = split(compact, ';');
  const auto arrow = clauses[0].find("->");
  TESSERA_CHECK(arrow != std::string::npos, "rule '{}' has no ->", text);

  Rule rule;
  const auto left = clauses[0].substr(0, arrow);
  if (!left.empty() || operands.size() == 1)
    for (const auto& part : split(left, ',')) rule.operands.push_back(parse_tensor(part));
  rule.result = parse_tensor(clauses[0].substr(arrow + 2));
  for (std::size_t i = 1; i < clauses.size(); ++i) {
    const std::string& clause = clauses[i];
    const bool composite = clause.ends_with("composite");
    TESSERA_CHECK(composite || clause.ends_with("whole"), "rule '{}': clause '{}'", text, clause);
    (composite ? rule.composite : rule.whole) += clause.substr(0, clause.size() - (composite ? 9 : 5));
  }

  TESSERA_CHECK(rule.operands.size() == operands.size(), "rule '{}' has {} operands, not {}", text,
                rule.operands.size(), operands.size());
  for (std::size_t k = 0; k < operands.size(); ++k)
    TESSERA_CHECK(rule.operands[k].size() == operands[k].size(), "rule '{}': operand {} is {}", text, k,
                  to_string(operands[k]));
  // Single factors first: they settle what a product leaves open.
  for (const bool single : {true, false})
    for (std::size_t k = 0; k < operands.size(); ++k)
      for (std::size_t d = 0; d < operands[k].size(); ++d)
        if ((rule.operands[k][d].size() == 1) == single) fit(rule.operands[k][d], operands[k][d], text, sizes);
  for (const auto& factors : rule.result)
    for (const char f : factors) TESSERA_CHECK(sizes.contains(f), "rule '{}': size of {} is open", text, f);
  rule.sizes = std::move(sizes);
  return rule;
}

Shape shape_of(const TensorFactors& factors, const std::map<char, std::int64_t>& sizes) {
  Shape shape;
  for (const auto& dim : factors) {
    std::int64_t size = 1;
    for (const char f : dim) size *= sizes.at(f);
    shape.push_back(size);
  }
  return shape;
}

TensorFactors letters(std::size_t rank) {
  TESSERA_CHECK(rank <= 26, "a tensor of rank {}", rank);
  TensorFactors factors;
  for (std::size_t d = 0; d < rank; ++d) factors.emplace_back(1, static_cast<char>('a' + d));
  return factors;
}

}  // namespace tessera::graph
