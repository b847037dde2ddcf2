#include "device/norm_spec.h"

namespace tessera::device {
namespace {

void require_per_row(const KernelSpec& spec, const Shape& shape, const NormSpec& norm) {
  require(spec, elements(shape) == norm.rows, "mean and rstd have one number a row");
}

void require_sums(const KernelSpec& spec, const Shape& shape, const NormSpec& norm) {
  require(spec, elements(shape) == 2 * norm.rows, "sums have two numbers a row");
}

}  // namespace

NormSpec::NormSpec(const KernelSpec& spec, const TensorSpec& x, std::size_t parameters_at)
    : scale(flag(spec.attributes, "scale")), center(flag(spec.attributes, "center")), parameters(parameters_at) {
  const auto axes = spec.attributes.get_or<std::int64_t>("axes", 1);
  require(spec, axes >= 1 && axes <= std::ssize(x.shape), "there are not so many dimensions");
  rows = rows_of(x.shape, axes).rows;
  cols = rows_of(x.shape, axes).cols;
  all_cols = number_or(spec.attributes, "cols", static_cast<double>(rows_of(global_of(x), axes).cols));
}

NormSpec parse_layer_norm(const KernelSpec& spec, bool sums) {
  const auto& shape = input(spec, 0);
  const NormSpec norm(spec, spec.inputs[0], sums ? 2 : 1);
  require_counts(spec, norm.parameters + (norm.scale ? 1 : 0) + (norm.center ? 1 : 0), 3);
  if (sums) require_sums(spec, input(spec, 1, DType::kF64), norm);
  for (auto k = norm.parameters; k < spec.inputs.size(); ++k)
    require(spec, elements(input(spec, k)) == norm.cols, "gamma and beta have x's columns");
  require_output(spec, 0, shape);
  for (std::size_t k = 1; k < 3; ++k) require_per_row(spec, output(spec, k), norm);
  return norm;
}

NormSpec parse_row_moments(const KernelSpec& spec) {
  require_counts(spec, 1, 1);
  input(spec, 0);
  const NormSpec norm(spec, spec.inputs[0], 1);
  require_sums(spec, output(spec, 0, DType::kF64), norm);
  return norm;
}

NormBackwardSpec parse_layer_norm_backward(const KernelSpec& spec, bool sums) {
  require(spec, spec.inputs.size() >= (sums ? 5 : 4),
          sums ? "it reads dy, x, mean, rstd and sums" : "it reads dy, x, mean and rstd");
  NormBackwardSpec backward{NormSpec(spec, spec.inputs[1], sums ? 5 : 4)};
  const auto& norm = backward.norm;
  int outputs = 0;
  for (const char c : spec.attributes.get<std::string>("needs")) {
    require(spec, c == 'x' || c == 'g' || c == 'b', "`needs` is made of x, g and b");
    (c == 'x' ? backward.dx : c == 'g' ? backward.dgamma : backward.dbeta) = outputs++;
  }
  require_counts(spec, norm.parameters + (norm.scale ? 1 : 0), static_cast<std::size_t>(outputs));
  require_input(spec, 1, input(spec, 0));
  for (std::size_t k = 2; k < 4; ++k) require_per_row(spec, input(spec, k), norm);
  if (sums) require_sums(spec, input(spec, 4, DType::kF64), norm);
  if (norm.scale) require(spec, elements(input(spec, norm.parameters)) == norm.cols, "gamma has x's columns");
  if (backward.dx >= 0) require_output(spec, static_cast<std::size_t>(backward.dx), spec.inputs[1].shape);
  for (const int k : {backward.dgamma, backward.dbeta})
    if (k >= 0)
      require(spec, elements(output(spec, static_cast<std::size_t>(k))) == norm.cols,
              "dgamma and dbeta have x's columns");
  backward.accumulate = flag(spec.attributes, "accumulate");
  return backward;
}

NormSpec parse_layer_norm_backward_sums(const KernelSpec& spec) {
  require(spec, spec.inputs.size() >= 4, "it reads dy, x, mean and rstd");
  const NormSpec norm(spec, spec.inputs[1], 4);
  require_counts(spec, norm.scale ? 5 : 4, 1);
  require_input(spec, 1, input(spec, 0));
  for (std::size_t k = 2; k < 4; ++k) require_per_row(spec, input(spec, k), norm);
  require_sums(spec, output(spec, 0, DType::kF64), norm);
  return norm;
}

Rows norm_partials(const KernelSpec& spec) {
  if (spec.attributes.get<std::string>("needs").find_first_of("gb") == std::string::npos) return {0, 0};
  return rows_of(input(spec, 1), spec.attributes.get_or<std::int64_t>("axes", 1));
}

}  // namespace tessera::device
