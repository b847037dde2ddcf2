#pragma once

#include <string>
#include <vector>

#include "matmul.h"

namespace tessera::cuda_emulator {

/// What the library answers. `mistake`: what the caller should have known, a sentence; "" where asking is legitimate.
struct Answer {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  std::string mistake;
  bool ok() const { return status == CUBLAS_STATUS_SUCCESS; }
};

/// Shapes, types, and what the epilogue wants, all but where the operands lie.
Answer check_product(const Matmul& x);

/// What an algorithm needs and how it sums; kept in the 64 bytes of cublasLtMatmulAlgo_t, which programs copy and
/// store.
struct Algorithm {
  std::uint32_t magic;
  std::uint16_t number;     // among the algorithms there are
  std::uint16_t alignment;  // bytes, of the operands and their leading dimensions
  std::uint16_t bias_alignment;
  std::uint16_t splits;     // of k, summed apart
  std::uint32_t reduction;  // cublasLtReductionScheme_t
  std::uint64_t workspace;  // bytes
  std::uint64_t product;    // types, transpositions and epilogue that it was found for
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

/// Best first. They differ in the order of their sums, so that ranks which choose differently differ in their bits.
std::vector<Algorithm> find_algorithms(const Matmul& x, const MatmulPreference& preference);

/// As the library refuses an algorithm at the call: for operands, a workspace or a product that it was not found for.
Answer check_algorithm(const Matmul& x, const Algorithm& algorithm, const void* workspace, std::size_t workspace_size);

}  // namespace tessera::cuda_emulator
