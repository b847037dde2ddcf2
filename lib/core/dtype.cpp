#include "core/dtype.h"

#include <array>

#include "core/error.h"

namespace tessera {
namespace {

struct Row {
  DType dtype;
  const char* name;
  int bytes;
};

constexpr std::array<Row, 8> kTable{{{DType::kF32, "float32", 4},
                                     {DType::kF64, "float64", 8},
                                     {DType::kBF16, "bfloat16", 2},
                                     {DType::kF16, "float16", 2},
                                     {DType::kI32, "int32", 4},
                                     {DType::kI64, "int64", 8},
                                     {DType::kU8, "uint8", 1},
                                     {DType::kBool, "bool", 1}}};

const Row& row(DType dtype) { return kTable.at(static_cast<std::size_t>(dtype)); }

}  // namespace

std::int64_t size_of(DType dtype) { return row(dtype).bytes; }

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16 || dtype == DType::kF16;
}

std::string to_string(DType dtype) { return row(dtype).name; }

DType parse_dtype(std::string_view name) {
  for (const auto& r : kTable)
    if (name == r.name) return r.dtype;
  fail(ExitCode::kConfig, "unknown dtype '{}'; known: float32, float64, bfloat16, float16, int32, int64, uint8, bool",
       name);
}

}  // namespace tessera
