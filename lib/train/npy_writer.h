#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"
#include "core/shape.h"

namespace tessera::train {

/// A .npy file (version 1.0) that several ranks write in boxes. It has the name FILE.part until commit().
class NpyWriter {
 public:
  /// The rank that creates writes the header and gives the file its size; the others open it afterwards.
  static void create(const std::string& file, const Shape& shape, DType dtype);

  /// Throws Error (data), naming the file.
  NpyWriter(const std::string& file, const Shape& shape, DType dtype);
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  /// Writes a box of the tensor from dense row-major values.
  void write(const Box& box, const void* values);
  /// Makes what this rank wrote durable.
  void sync();
  /// Renames FILE.part to FILE; by one rank, after all have synced.
  static void commit(const std::string& file);

 private:
  std::string file_;
  Shape shape_;
  std::int64_t element_bytes_, data_offset_;
  int fd_ = -1;
};

}  // namespace tessera::train
