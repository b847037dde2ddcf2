#pragma once

#include <cstdint>

#include "device/matmul_spec.h"
#include "device/operands.h"
#include "device/table_part.h"

// What a kernel takes of the scratch, and the cuts that this follows from. Needs no CUDA: a plan is made where none is.
namespace tessera::device::cuda {

/// Workspace of a product: room for sixteen partial sums of each element, at most the 32 MiB that NVIDIA advises for
/// Hopper and later.
std::int64_t blas_workspace_bytes(const MatmulShape& shape);

/// Blocks of layer_norm_backward and its finish, of which each leaves a row of partial sums of dgamma and of dbeta.
std::int64_t layer_norm_blocks(const Rows& rows);

/// Digits of the sort of an embedding's positions are below kSortBins, a block sorts kSortTile of at most kMostSorted;
/// contributions to a row of the table are added in pieces of kPiece.
inline constexpr int kSortBins = 256, kSortTile = 2048, kMostSorted = 1 << 30, kPiece = 128;

/// Where the piece lies whose first position has this place in their order, in elements of EmbeddingScratch::pieces.
constexpr std::int64_t piece_at(std::int32_t place, std::int64_t cols) {
  return static_cast<std::int64_t>(place / kPiece) * cols;
}

/// Working memory of embedding_backward: bytes from its begin.
struct EmbeddingScratch {
  std::int64_t tiles;             // of the sort
  std::int64_t order[2], counts;  // i32 (ids) and (bins, tiles)
  std::int64_t first, last;       // i32 (rows)
  std::int64_t pieces;            // f32 (ids / kPiece + 1, cols)
  std::int64_t bytes;

  EmbeddingScratch(std::int64_t ids, const TablePart& part);
};

/// Bytes of the scratch that the kernel takes.
std::int64_t scratch_bytes(const KernelSpec& spec);

}  // namespace tessera::device::cuda
