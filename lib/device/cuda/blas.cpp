#include "device/cuda/blas.h"

#include "device/cuda/check.h"
#include "device/cuda/scratch.h"

namespace tessera::device::cuda {
namespace {

void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const auto& value) {
  check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}

void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

cublasLtMatrixLayout_t column_major(std::int64_t rows, std::int64_t cols) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(cols), rows),
        "cublasLtMatrixLayoutCreate");
  return layout;
}

cublasLtEpilogue_t to_blas(BlasEpilogue epilogue) {
  switch (epilogue) {
    case BlasEpilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case BlasEpilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case BlasEpilogue::kRelu:
      return CUBLASLT_EPILOGUE_RELU;
    case BlasEpilogue::kReluBias:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case BlasEpilogue::kGelu:
      return CUBLASLT_EPILOGUE_GELU;
    case BlasEpilogue::kGeluBias:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool has_bias(BlasEpilogue epilogue) {
  return epilogue == BlasEpilogue::kBias || epilogue == BlasEpilogue::kReluBias || epilogue == BlasEpilogue::kGeluBias;
}

}  // namespace

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(ExitCode::kInternal, "{} failed: {}", call, cublasLtGetStatusString(status));
}

BlasHandle make_blas() {
  cublasLtHandle_t blas = nullptr;
  check(cublasLtCreate(&blas), "cublasLtCreate");
  return BlasHandle(blas);
}

BlasProduct::BlasProduct(const MatmulShape& shape, BlasEpilogue epilogue, bool tensor_float_32)
    : workspace_bytes_(blas_workspace_bytes(shape)) {
  cublasLtMatmulDesc_t product = nullptr;
  check(cublasLtMatmulDescCreate(&product, tensor_float_32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  product_.reset(product);
  const auto& [m, n, k, transpose_a, transpose_b] = shape;
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, to_blas(epilogue));
  if (has_bias(epilogue)) {
    // Only its alignment counts before the run.
    const void* somewhere_aligned = reinterpret_cast<const void*>(std::uintptr_t{256});
    set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere_aligned);
    set(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
  }
  left_.reset(transpose_b ? column_major(k, n) : column_major(n, k));
  right_.reset(transpose_a ? column_major(m, k) : column_major(k, m));
  result_.reset(column_major(n, m));
}

std::vector<cublasLtMatmulAlgo_t> BlasProduct::algorithms(cublasLtHandle_t blas,
                                                          const std::array<std::uint32_t, 3>& alignment,
                                                          int most) const {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t, &cublasLtMatmulPreferenceDestroy> preference(made);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes_));
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment[1]);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment[0]);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment[2]);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment[2]);

  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int count = 0;
  const auto status = cublasLtMatmulAlgoGetHeuristic(blas, product_.get(), left_.get(), right_.get(), result_.get(),
                                                     result_.get(), made, most, results.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i)
    if (const auto& result = results[static_cast<std::size_t>(i)]; result.state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back(result.algo);
  return algorithms;
}

void BlasProduct::run(cublasLtHandle_t blas, const cublasLtMatmulAlgo_t& algorithm, const Operands& o,
                      cudaStream_t stream) const {
  if (o.bias != nullptr) set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias);
  const float alpha = 1;
  check(cublasLtMatmul(blas, product_.get(), &alpha, o.b, left_.get(), o.a, right_.get(), &o.beta, o.y, result_.get(),
                       o.y, result_.get(), &algorithm, o.workspace, static_cast<std::size_t>(workspace_bytes_), stream),
        "cublasLtMatmul");
}

}  // namespace tessera::device::cuda
