#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace tessera::checkpoint {

/// A tensor as it is stored: whole, row-major, little-endian.
struct TensorSpec {
  std::string name;  // a variable's path
  DType dtype = DType::kF32;
  Shape shape;

  bool operator==(const TensorSpec&) const = default;
};

/// Where it lies: bytes [begin, end) of the file.
struct StoredTensor : TensorSpec {
  std::int64_t begin = 0, end = 0;
};

struct Header {
  std::map<std::string, StoredTensor> tensors;  // by name
  std::map<std::string, std::string> metadata;
};

/// The JSON of a safetensors header. `data_start`: bytes in front of the data; `file_bytes`: of the whole file.
/// Everything in it is doubted: Error (checkpoint) naming `path` for bad JSON, a tensor given twice, unknown dtypes,
/// sizes that do not fit the offsets, and offsets that overlap, leave holes or reach beyond the file.
Header parse_header(std::string_view json, std::int64_t data_start, std::int64_t file_bytes, const std::string& path);

/// Bytes in front of the data, with the 8 of the length: JSON padded to a multiple of 8, `__metadata__` {"format":
/// "pt"}. Tensors lie by falling size of element, then by name, as the safetensors library writes them. `placed` gets
/// where each lies.
std::string make_header(std::vector<TensorSpec> tensors, std::map<std::string, StoredTensor>& placed);

/// "F32", "BF16", ...
std::string stored_name(DType dtype);

}  // namespace tessera::checkpoint
