#pragma once

#include <array>
#include <cstdint>
#include <cublasLt.h>
#include <vector>

#include "device/cuda/handles.h"
#include "device/matmul_spec.h"

namespace tessera::device::cuda {

/// Throws Error (internal) that names the call, where it did not succeed.
void check(cublasStatus_t status, const char* call);

using BlasHandle = Owned<cublasLtHandle_t, &cublasLtDestroy>;
BlasHandle make_blas();

/// What cuBLASLt adds to a product as it writes it.
enum class BlasEpilogue : std::uint8_t { kNone, kBias, kRelu, kReluBias, kGelu, kGeluBias };  // gelu: the tanh form

/// The product of a `matmul` as cuBLASLt sees it: row-major tensors are its column-major ones with the sides exchanged,
/// so y (m, n) = a b is computed as y' = b' a'.
class BlasProduct {
 public:
  BlasProduct(const MatmulShape& shape, BlasEpilogue epilogue, bool tensor_float_32);

  /// Algorithms that the library offers within the workspace, its favourite first; empty: it refuses this
  /// epilogue. Only those whose partial sums are kept in f32. `alignment`: of the pointers of a, b and y, in bytes.
  std::vector<cublasLtMatmulAlgo_t> algorithms(cublasLtHandle_t blas, const std::array<std::uint32_t, 3>& alignment,
                                               int most) const;

  struct Operands {
    const float* a;
    const float* b;
    const float* bias;  // where the epilogue has one
    float* y;
    float beta;       // 0, or 1: y is added to
    void* workspace;  // blas_workspace_bytes()
  };
  void run(cublasLtHandle_t blas, const cublasLtMatmulAlgo_t& algorithm, const Operands& operands,
           cudaStream_t stream) const;

 private:
  std::int64_t workspace_bytes_;
  Owned<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy> product_;
  Owned<cublasLtMatrixLayout_t, &cublasLtMatrixLayoutDestroy> left_, right_, result_;
};

}  // namespace tessera::device::cuda
