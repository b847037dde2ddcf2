#include "device/operands.h"

#include <algorithm>
#include <vector>

#include "core/text.h"

namespace tessera::device {
namespace {

std::string list(const std::vector<TensorSpec>& tensors) {
  std::vector<std::string> parts;
  for (const auto& t : tensors)
    parts.push_back(t.dtype == DType::kF32 ? to_string(t.shape) : to_string(t.dtype) + to_string(t.shape));
  return join(parts);
}

const Shape& operand(const KernelSpec& spec, const std::vector<TensorSpec>& tensors, std::size_t k, DType dtype) {
  require(spec, k < tensors.size(), "an operand is missing");
  require(spec, tensors[k].dtype == dtype, "an operand should be " + to_string(dtype));
  return tensors[k].shape;
}

}  // namespace

std::string to_string(const KernelSpec& spec) {
  return spec.name + " " + list(spec.inputs) + " -> " + list(spec.outputs) + " " + to_string(spec.attributes);
}

void require(const KernelSpec& spec, bool condition, std::string_view what) {
  if (!condition) fail(ExitCode::kInternal, "internal error: kernel {}: {}", to_string(spec), what);
}

void require_counts(const KernelSpec& spec, std::size_t inputs, std::size_t outputs) {
  require(spec, spec.inputs.size() == inputs && spec.outputs.size() == outputs, "the number of operands is wrong");
}

const Shape& input(const KernelSpec& spec, std::size_t k, DType dtype) { return operand(spec, spec.inputs, k, dtype); }
const Shape& output(const KernelSpec& spec, std::size_t k, DType dtype) {
  return operand(spec, spec.outputs, k, dtype);
}

void require_input(const KernelSpec& spec, std::size_t k, const Shape& shape, DType dtype) {
  require(spec, input(spec, k, dtype) == shape, "input " + std::to_string(k) + " should be " + to_string(shape));
}

void require_output(const KernelSpec& spec, std::size_t k, const Shape& shape, DType dtype) {
  require(spec, output(spec, k, dtype) == shape, "output " + std::to_string(k) + " should be " + to_string(shape));
}

Shape global_of(const TensorSpec& tensor) { return tensor.global.empty() ? tensor.shape : tensor.global; }
Shape start_of(const TensorSpec& tensor) { return tensor.start.empty() ? Shape(tensor.shape.size(), 0) : tensor.start; }

double number(const Attributes& attributes, const std::string& name) {
  const auto it = attributes.items().find(name);
  TESSERA_CHECK(it != attributes.items().end(), "no attribute '{}'", name);
  if (const auto* integer = std::get_if<std::int64_t>(&it->second)) return static_cast<double>(*integer);
  return attributes.get<double>(name);
}

double number_or(const Attributes& attributes, const std::string& name, double fallback) {
  return attributes.has(name) ? number(attributes, name) : fallback;
}

bool flag(const Attributes& attributes, const std::string& name) { return attributes.get_or<bool>(name, false); }

Rows rows_of(const Shape& shape, std::int64_t axes) {
  Rows r;
  const auto first = static_cast<std::int64_t>(shape.size()) - axes;
  TESSERA_CHECK(first >= 0, "{} has fewer than {} dimensions", to_string(shape), axes);
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape.size()); ++d) (d < first ? r.rows : r.cols) *= shape[d];
  return r;
}

Rows require_rows(const KernelSpec& spec, std::size_t full, std::size_t per_row, bool full_output) {
  require_counts(spec, full + per_row, 1);
  const auto& shape = input(spec, 0);
  const auto rows = rows_of(shape);
  for (std::size_t k = 1; k < full; ++k) require_input(spec, k, shape);
  for (std::size_t k = full; k < full + per_row; ++k)
    require(spec, elements(input(spec, k)) == rows.rows, "an input should have one number a row");
  if (full_output) {
    require_output(spec, 0, shape);
  } else {
    require(spec, elements(output(spec, 0)) == rows.rows, "the output should have one number a row");
  }
  return rows;
}

Shape leading(const Shape& shape, std::int64_t axes) {
  TESSERA_CHECK(static_cast<std::int64_t>(shape.size()) >= axes, "{} has fewer than {} dimensions", to_string(shape),
                axes);
  return {shape.begin(), shape.end() - axes};
}

RowMask::RowMask(const KernelSpec& spec, const TensorSpec& tensor) {
  require(spec, !tensor.shape.empty(), "rows are counted along the first dimension, and a scalar has none");
  rows = tensor.shape[0];
  batch_rows = global_of(tensor)[0];
  start = start_of(tensor)[0];
}

std::int64_t RowMask::real(const StepParams& params) const {
  return std::clamp<std::int64_t>(params.real_rows - (start + params.micro_batch * batch_rows), 0, rows);
}

}  // namespace tessera::device
