// cublasLt's calls: descriptors, and products that check every address range before they are enqueued.
#include <algorithm>
#include <cstring>
#include <cublasLt.h>

#include "capture.h"
#include "device.h"
#include "fault.h"
#include "matmul_rules.h"
#include "memory.h"
#include "streams.h"
#include "traffic.h"

using namespace tessera::cuda_emulator;

namespace {

MatrixLayout& get(cublasLtMatrixLayout_t l) { return *reinterpret_cast<MatrixLayout*>(l); }
MatmulDesc& get(cublasLtMatmulDesc_t d) { return *reinterpret_cast<MatmulDesc*>(d); }
MatmulPreference& get(cublasLtMatmulPreference_t p) { return *reinterpret_cast<MatmulPreference*>(p); }

template <typename T>
cublasStatus_t set(T& to, const void* from, std::size_t size) {
  if (from == nullptr || size != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, from, size);
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t bytes_of(const MatrixLayout& l) {
  const std::int64_t elements = (l.batch - 1) * l.stride + std::int64_t(l.cols - 1) * l.ld + std::int64_t(l.rows);
  return std::size_t(elements) * size_of(l.type);
}

bool overlap(const void* p, std::size_t p_size, const void* q, std::size_t q_size) {
  const auto a = reinterpret_cast<std::uintptr_t>(p), b = reinterpret_cast<std::uintptr_t>(q);
  return a < b + q_size && b < a + p_size;
}

std::string check_matrix(const char* name, const void* p, const MatrixLayout& l) {
  const std::string wrong = check_range(p, bytes_of(l));
  return wrong.empty() ? "" : std::string(name) + ": " + wrong;
}

// A vector or matrix that the epilogue reads or writes.
std::string check_part(const char* name, const void* p, std::size_t bytes) {
  if (p == nullptr) return std::string("the epilogue wants a pointer to its ") + name;
  const std::string wrong = check_range(p, bytes);
  return wrong.empty() ? "" : std::string(name) + ": " + wrong;
}

std::string check_memory(const Matmul& x, const void* workspace, std::size_t workspace_size) {
  std::string wrong = check_matrix("A", x.pa, x.a);
  if (wrong.empty()) wrong = check_matrix("B", x.pb, x.b);
  if (wrong.empty()) wrong = check_matrix("D", x.pd, x.d);
  if (wrong.empty() && x.beta != 0) wrong = check_matrix("C", x.pc, x.c);
  if (wrong.empty() && x.uses_bias()) wrong = check_part("bias", x.desc.bias, x.bias_length() * size_of(x.bias_type()));
  if (wrong.empty() && x.uses_aux()) wrong = check_part("auxiliary matrix", x.desc.aux, x.aux_bytes());
  if (wrong.empty() &&
      (overlap(x.pd, bytes_of(x.d), x.pa, bytes_of(x.a)) || overlap(x.pd, bytes_of(x.d), x.pb, bytes_of(x.b)) ||
       overlap(x.pd, bytes_of(x.d), workspace, workspace_size)))
    wrong = "D lies in an operand or in the workspace of its own product";
  return wrong.empty() ? check_range(workspace, workspace_size) : wrong;
}

cublasStatus_t answer(const char* call, const Answer& a) {
  refused(call, a.mistake);
  return a.status;
}

// The one that the program names, or the library's own choice for these operands.
Answer choose_algorithm(const Matmul& x, const cublasLtMatmulAlgo_t* named, std::size_t workspace_size, Algorithm* to) {
  if (named != nullptr) {
    std::memcpy(to, named, sizeof *to);
    return {};
  }
  const auto alignment_of = [](const void* p) {
    const auto a = reinterpret_cast<std::uintptr_t>(p);
    return a == 0 ? 256u : unsigned(std::min<std::uintptr_t>(a & -a, 256));
  };
  const std::vector<Algorithm> found =
      find_algorithms(x, {workspace_size, CUBLASLT_REDUCTION_SCHEME_MASK, alignment_of(x.pa), alignment_of(x.pb),
                          alignment_of(x.pc), alignment_of(x.pd)});
  if (found.empty()) return {CUBLAS_STATUS_NOT_SUPPORTED, ""};
  *to = found[0];
  return {};
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (device_error() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new MatmulDesc{compute, scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete &get(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* p, size_t size) {
  MatmulDesc& d = get(desc);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(d.a, p, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(d.b, p, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(d.epilogue, p, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(d.bias, p, size);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(d.bias_type, p, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(d.aux, p, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(d.aux_ld, p, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return set(d.aux_stride, p, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return set(d.aux_type, p, size);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return set(d.sm_count, p, size);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return set(d.fast_accumulation, p, size);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  if (size_of(type) == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (ld < std::int64_t(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new MatrixLayout{type, rows, cols, ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &get(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* p, size_t size) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(get(layout).batch, p, size);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(get(layout).stride, p, size);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new MatmulPreference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &get(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* p,
                                                    size_t size) {
  MatmulPreference& x = get(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(x.workspace, p, size);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(x.reductions, p, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(x.alignment_a, p, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(x.alignment_b, p, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(x.alignment_c, p, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(x.alignment_d, p, size);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int wanted, cublasLtMatmulHeuristicResult_t* results, int* count) {
  *count = 0;
  if (wanted <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  const Matmul x{get(desc), get(a), get(b), get(c), get(d), nullptr, nullptr, nullptr, nullptr, 1, 0};
  if (const Answer checked = check_product(x); !checked.ok()) return answer("cublasLtMatmulAlgoGetHeuristic", checked);
  for (const Algorithm& algorithm : find_algorithms(x, get(preference))) {
    if (*count == wanted) break;
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
    result = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = algorithm.workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* named, void* workspace,
                              size_t workspace_size, cudaStream_t stream) {
  if (device_error() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  const Matmul x{get(desc),
                 get(a_layout),
                 get(b_layout),
                 get(c_layout),
                 get(d_layout),
                 a,
                 b,
                 c,
                 d,
                 *static_cast<const float*>(alpha),
                 *static_cast<const float*>(beta)};
  Algorithm algorithm;
  Answer checked = check_product(x);
  if (checked.ok()) checked = choose_algorithm(x, named, workspace_size, &algorithm);
  if (checked.ok()) checked = check_algorithm(x, algorithm, workspace, workspace_size);
  if (!checked.ok()) return answer("cublasLtMatmul", checked);
  if (refused("cublasLtMatmul", check_memory(x, workspace, workspace_size))) return CUBLAS_STATUS_INVALID_VALUE;
  const Summation summation{algorithm.splits, algorithm.reduction == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE};
  const auto run = [x, summation, workspace, workspace_size] {
    const std::string wrong = check_memory(x, workspace, workspace_size);
    if (!wrong.empty()) return fault("a product when its turn came: " + wrong);
    multiply(x, summation);
    add_product();
  };
  const cudaError_t error = enqueue(stream, once("matmul", run));
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
