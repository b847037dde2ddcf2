#pragma once

#include <cstdint>
#include <string>

#include "device/operands.h"

// What the embedding's kernels of every backend ask of their spec.
namespace tessera::device {

/// A part of a table: rows [start, start + rows) of `global`.
struct TablePart {
  std::int64_t start = 0, rows = 0, global = 0, cols = 0;
};
/// Throws Error (internal) unless it is a matrix of f32.
TablePart table_part(const KernelSpec& spec, const TensorSpec& table);

/// Ids (any shape), each with a row of the table: values (ids..., cols). Throws Error (internal).
struct Lookups {
  std::int64_t count = 0, ids_a_row = 1;
};
Lookups require_lookups(const KernelSpec& spec, const TablePart& part, const TensorSpec& ids, const TensorSpec& values);

/// What is wrong with the id of this index.
std::string complaint(const TablePart& part, const Lookups& lookups, std::int64_t index, std::int32_t id);

}  // namespace tessera::device
