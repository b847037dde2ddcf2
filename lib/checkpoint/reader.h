#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/file.h"
#include "checkpoint/header.h"

namespace tessera::checkpoint {

/// Throws Error (checkpoint) unless a stored tensor has the wanted shape and a dtype that converts.
void require_fit(const std::string& path, const TensorSpec& stored, const TensorSpec& wanted);

/// A safetensors file, read by boxes. Errors are Error (checkpoint) and name the file.
class SafetensorsReader {
 public:
  /// Reads and checks the header only.
  explicit SafetensorsReader(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  /// Throws with the nearest name if there is none.
  const StoredTensor& at(const std::string& name) const;

  /// Every wanted tensor must be there with its shape and a dtype that converts. Returns the names that nobody wanted.
  std::vector<std::string> require(const std::vector<TensorSpec>& wanted) const;

  /// Fills `destination`, contiguous and of the box's size, with elements of type `as`. Reads only what the box needs,
  /// at most 1 MiB beside the destination. Integers become any type that holds them, floats any float.
  void read_box(const std::string& name, const Box& box, void* destination, DType as) const;

  /// Elements [first, first + count), row-major, as they are stored.
  void read_elements(const std::string& name, std::int64_t first, std::int64_t count, void* destination) const;

 private:
  std::string path_;
  File file_;
  Header header_;
};

}  // namespace tessera::checkpoint
