#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/file.h"
#include "checkpoint/header.h"
#include "checkpoint/shards.h"
#include "core/shape.h"

namespace tessera::checkpoint {

/// Writes one rank's elements into files that all ranks write together, without a word between them: everyone knows
/// where everything lies. One rank, `is_first`, also writes the headers and reserves the blocks. The folder is there.
/// Errors are Error (checkpoint) with the path and the system's words; a full disk among them.
class ShardWriter {
 public:
  /// `bytes_per_s`: writes no faster; 0: as fast as it goes. `hurry`: once it is true, the limit holds no longer.
  ShardWriter(std::string folder, const std::vector<ShardFile>& files, bool is_first, double bytes_per_s = 0,
              const std::atomic<bool>* hurry = nullptr);

  /// Elements [first, first + count) of a box of a tensor, row-major, contiguous in memory.
  void write(const std::string& name, const Box& box, std::int64_t first, std::int64_t count, const void* elements);

  /// All that was written is on the disk.
  void close();

  /// Of what was written, by tensor: the sums of all ranks are the tensors' checksums.
  const std::map<std::string, std::uint64_t>& checksums() const { return checksums_; }

 private:
  struct Place {
    std::size_t file = 0;
    StoredTensor tensor;
  };

  File& open(std::size_t file);
  void wait_for_turn(std::int64_t bytes);

  std::string folder_;
  std::vector<std::string> names_;
  std::map<std::size_t, File> files_;  // those that are open
  std::map<std::string, Place> places_;
  std::map<std::string, std::uint64_t> checksums_;
  double bytes_per_s_;
  const std::atomic<bool>* hurry_;
  std::int64_t written_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tessera::checkpoint
