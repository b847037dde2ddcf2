#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"
#include "device/device.h"

// What the kernels of every backend ask of their spec.
namespace tessera::device {

/// "matmul (4, 8), (8, 2) -> (4, 2) {transpose_a=false}"
std::string to_string(const KernelSpec& spec);

/// Throws Error (internal) that shows the spec, unless the condition holds.
void require(const KernelSpec& spec, bool condition, std::string_view what);
void require_counts(const KernelSpec& spec, std::size_t inputs, std::size_t outputs);

/// Shape of operand k, which must be there with this dtype.
const Shape& input(const KernelSpec& spec, std::size_t k, DType dtype = DType::kF32);
const Shape& output(const KernelSpec& spec, std::size_t k, DType dtype = DType::kF32);

/// The same with the shape that it must have.
void require_input(const KernelSpec& spec, std::size_t k, const Shape& shape, DType dtype = DType::kF32);
void require_output(const KernelSpec& spec, std::size_t k, const Shape& shape, DType dtype = DType::kF32);

/// The operand's place: its global shape and first index, also where the spec leaves them out.
Shape global_of(const TensorSpec& tensor);
Shape start_of(const TensorSpec& tensor);

/// A number that may have been written as an integer.
double number(const Attributes& attributes, const std::string& name);
double number_or(const Attributes& attributes, const std::string& name, double fallback);
bool flag(const Attributes& attributes, const std::string& name);  // false where it is absent

/// A tensor seen as a matrix: the trailing `axes` dimensions are its columns.
struct Rows {
  std::int64_t rows = 1, cols = 1;
};
Rows rows_of(const Shape& shape, std::int64_t axes = 1);

/// Of a kernel that works row by row: its first `full` inputs (and output 0, if `full_output`) have the shape of input
/// 0, `per_row` more (and else output 0) one number for each of its rows. Throws Error (internal).
Rows require_rows(const KernelSpec& spec, std::size_t full, std::size_t per_row, bool full_output);

/// The shape without its trailing `axes` dimensions.
Shape leading(const Shape& shape, std::int64_t axes = 1);

/// Which local rows are real: padding lies at the end of the batch, so they are the first so many.
struct RowMask {
  std::int64_t rows = 0, start = 0, batch_rows = 0;

  RowMask(const KernelSpec& spec, const TensorSpec& tensor);

  std::int64_t real(const StepParams& params) const;
};

}  // namespace tessera::device
