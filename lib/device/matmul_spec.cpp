#include "device/matmul_spec.h"

#include <fmt/format.h>

namespace tessera::device {

std::string to_string(const MatmulShape& s) {
  return fmt::format("{}x{}x{} {}{}", s.m, s.n, s.k, s.transpose_a ? 't' : 'n', s.transpose_b ? 't' : 'n');
}

// A matrix as it lies in memory: one side is the last dimension, the other all those before it.
MatmulSpec parse_matmul(const KernelSpec& spec) {
  const auto& attributes = spec.attributes;
  MatmulSpec p;
  auto& [m, n, k, transpose_a, transpose_b] = p.shape;
  transpose_a = flag(attributes, "transpose_a");
  transpose_b = flag(attributes, "transpose_b");
  p.bias = flag(attributes, "bias");
  p.residual = flag(attributes, "residual");
  p.activation = attributes.get_or<std::string>("activation", "");
  if (p.activation == "linear") p.activation.clear();
  p.accumulate = flag(attributes, "accumulate");
  if (attributes.has("alpha")) p.activation += fmt::format(" {}", number(attributes, "alpha"));
  require_counts(spec, 2 + (p.bias ? 1 : 0) + (p.residual ? 1 : 0), 1);

  const auto a = rows_of(input(spec, 0)), b = rows_of(input(spec, 1)), y = rows_of(output(spec, 0));
  m = transpose_a ? a.cols : a.rows;
  k = transpose_a ? a.rows : a.cols;
  n = transpose_b ? b.rows : b.cols;
  require(spec, (transpose_b ? b.cols : b.rows) == k && y.rows == m && y.cols == n, "a, b and y do not fit");
  if (p.bias) require_input(spec, 2, {n});
  if (p.residual) require_input(spec, p.bias ? 3 : 2, spec.outputs[0].shape);
  require(spec, !p.accumulate || !p.has_epilogue(), "what accumulates has neither bias nor activation nor residual");
  return p;
}

std::string MatmulSpec::epilogue(bool skip_bias, bool skip_activation) const {
  std::string steps, last = "i0";
  int count = 0;
  const auto then = [&](const std::string& step) {
    steps += (count > 0 ? " | " : "") + step;
    last = "t" + std::to_string(count++);
  };
  const bool add_bias = bias && !skip_bias;
  if (add_bias) then("add i0 i1");
  if (!activation.empty() && !skip_activation) {
    const auto space = activation.find(' ');
    then(activation.substr(0, space) + " " + last + (space == std::string::npos ? "" : activation.substr(space)));
  }
  if (residual) then("add " + last + (add_bias ? " i2" : " i1"));
  return steps;
}

std::vector<Shape> MatmulSpec::epilogue_shapes(bool skip_bias) const {
  std::vector<Shape> list{{shape.m, shape.n}};
  if (bias && !skip_bias) list.push_back({shape.n});
  if (residual) list.push_back({shape.m, shape.n});
  return list;
}

}  // namespace tessera::device
