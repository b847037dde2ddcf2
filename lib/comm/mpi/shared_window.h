#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/mpi/check.h"

namespace tessera::comm {

/// Memory of every rank of a node that all of them can read and write: MPI_Win_allocate_shared. Zeroed, each part by
/// its owner.
class SharedWindow {
 public:
  SharedWindow() = default;
  /// Collective over `node`. `what` names the memory in the sentence of the Error (config) if shared memory is too
  /// small.
  SharedWindow(MPI_Comm node, std::int64_t own_bytes, const std::string& what);
  SharedWindow(SharedWindow&& other) noexcept { swap(other); }
  SharedWindow& operator=(SharedWindow&& other) noexcept;
  ~SharedWindow() = default;

  /// Collective over `node`.
  void free();

  /// The memory of a rank of the node.
  std::byte* data(int rank) const { return data_[static_cast<std::size_t>(rank)]; }

 private:
  void swap(SharedWindow& other) noexcept;

  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<std::byte*> data_;
};

}  // namespace tessera::comm
