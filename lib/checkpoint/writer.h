#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/file.h"
#include "checkpoint/header.h"
#include "mesh/layout.h"

namespace tessera::checkpoint {

/// What the writer needs of the ranks.
struct Ranks {
  std::int64_t rank = 0;
  /// The sum over all ranks, on all ranks: collective, also the barrier. One rank: the value itself.
  std::function<std::int64_t(std::int64_t)> sum = [](std::int64_t value) { return value; };
};

/// Writes one safetensors file from all ranks. The file of that name is replaced at the end or stays as it was. A rank
/// that fails leaves no other waiting: all ranks throw Error (checkpoint), the failed one with the path and the
/// system's words.
class SafetensorsWriter {
 public:
  /// Collective; the same on all ranks. Rank 0 makes `path`.partial, reserves its blocks and writes the header.
  SafetensorsWriter(std::string path, const std::vector<TensorSpec>& tensors, Ranks ranks);
  /// Removes the partial file if it wasn't finished.
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The box's elements, contiguous, of the tensor's dtype. Over all ranks every element must be written once. An error
  /// of the disk is kept for finish(), so that it may be called a different number of times on each rank.
  void write_box(const std::string& name, const Box& box, const void* source);

  /// Collective: fsync on every rank, then rank 0 renames.
  void finish();

 private:
  /// Keeps the error of the first call that fails; after it does nothing.
  void attempt(const std::function<void()>& call);
  /// Collective: throws on all ranks if one failed.
  void agree();
  void remove_partial() const;

  std::string path_, partial_;
  Ranks ranks_;
  std::map<std::string, StoredTensor> tensors_;
  std::int64_t data_bytes_ = 0, written_bytes_ = 0;
  File file_;
  std::string failure_;
  bool is_finished_ = false;
};

/// The boxes that this rank writes: what it owns, if it is the first of those that own the same. Over all ranks every
/// element once.
std::vector<Box> boxes_to_write(const mesh::Layout& layout, const mesh::DeviceMesh& mesh,
                                const std::vector<std::int64_t>& coordinates, const Shape& shape);

}  // namespace tessera::checkpoint
