#include "device/cuda/scratch.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "device/cuda/sum_cut.h"
#include "device/norm_spec.h"

namespace tessera::device::cuda {
namespace {

std::int64_t layer_norm_partials(const KernelSpec& spec) {
  const auto rows = norm_partials(spec);
  return layer_norm_blocks(rows) * 2 * rows.cols * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t scalar_sum_scratch(const KernelSpec& spec) {
  return sum_scratch(cut_sum(elements(spec.inputs.at(0).shape)), sizeof(double));
}

std::int64_t embedding_memory(const KernelSpec& spec) {
  return EmbeddingScratch(elements(input(spec, 0, DType::kI32)), table_part(spec, spec.outputs.at(0))).bytes;
}

// Kernels that take none are absent.
const std::map<std::string_view, std::int64_t (*)(const KernelSpec&)> kScratch = {
    {"matmul", [](const KernelSpec& spec) { return blas_workspace_bytes(parse_matmul(spec).shape); }},
    {"reduce_sum", reduce_sum_scratch},
    {"sum_squares", scalar_sum_scratch},
    {"layer_norm_backward", layer_norm_partials},
    {"layer_norm_backward_finish", layer_norm_partials},
    {"embedding_backward", embedding_memory},
    {"weighted_sum", scalar_sum_scratch},
    {"count_valid", scalar_sum_scratch},
    {"sum_weights", scalar_sum_scratch},
    {"metric_accumulate", [](const KernelSpec& spec) { return 2 * scalar_sum_scratch(spec); }},
};

}  // namespace

std::int64_t blas_workspace_bytes(const MatmulShape& shape) {
  return std::min<std::int64_t>(32 << 20, 16 * sizeof(float) * shape.m * shape.n);
}

std::int64_t layer_norm_blocks(const Rows& rows) {
  const std::int64_t teams = rows.cols <= 32 ? 32 : rows.cols <= 1024 ? 8 : 1;  // of a block, a row each at a time
  const std::int64_t most = rows.cols <= 256 ? 1056 : 264;  // eight or two for each of 132 processors
  return std::min(most, (rows.rows + 4 * teams - 1) / (4 * teams));
}

EmbeddingScratch::EmbeddingScratch(std::int64_t ids, const TablePart& part)
    : tiles((ids + kSortTile - 1) / kSortTile), bytes(0) {
  const auto place = [this](std::int64_t numbers) {
    const auto at = bytes;
    bytes += (numbers * 4 + 255) / 256 * 256;
    return at;
  };
  order[0] = place(ids);
  order[1] = place(ids);
  counts = place(kSortBins * tiles);
  first = place(part.rows);
  last = place(part.rows);
  pieces = place((ids / kPiece + 1) * part.cols);
}

std::int64_t scratch_bytes(const KernelSpec& spec) {
  const auto it = kScratch.find(spec.name);
  return it == kScratch.end() ? 0 : it->second(spec);
}

}  // namespace tessera::device::cuda
