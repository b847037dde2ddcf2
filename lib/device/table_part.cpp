#include "device/table_part.h"

#include <fmt/format.h>

namespace tessera::device {

TablePart table_part(const KernelSpec& spec, const TensorSpec& table) {
  require(spec, table.shape.size() == 2 && table.dtype == DType::kF32, "the table is a matrix of f32");
  return {start_of(table)[0], table.shape[0], global_of(table)[0], table.shape[1]};
}

Lookups require_lookups(const KernelSpec& spec, const TablePart& part, const TensorSpec& ids,
                        const TensorSpec& values) {
  require(spec, ids.dtype == DType::kI32, "ids are i32");
  auto shape = ids.shape;
  const auto count = elements(shape);
  const auto ids_a_row = shape.empty() || shape[0] == 0 ? 1 : count / shape[0];
  shape.push_back(part.cols);
  require(spec, values.shape == shape && values.dtype == DType::kF32, "each id has a row of the table");
  return {count, ids_a_row};
}

std::string complaint(const TablePart& part, const Lookups& lookups, std::int64_t index, std::int32_t id) {
  return fmt::format("id {} in row {} of this rank's part of the batch is outside the embedding's {} rows", id,
                     index / lookups.ids_a_row, part.global);
}

}  // namespace tessera::device
