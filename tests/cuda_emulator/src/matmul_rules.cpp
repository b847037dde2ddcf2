// What cublasLt takes and what it refuses. Where its documents promise nothing for a pair of types, the answer here is
// no: a program has to live with that.
#include "matmul_rules.h"

#include <algorithm>
#include <array>

#include "settings.h"

namespace tessera::cuda_emulator {
namespace {

constexpr std::uint32_t kMagic = 0x54e55e7a;
constexpr std::uint16_t kTensorCoreAlignment = 16;  // bytes
constexpr std::uintptr_t kWorkspaceAlignment = 256;

Answer no() { return {CUBLAS_STATUS_NOT_SUPPORTED, ""}; }
Answer mistake(const std::string& what) { return {CUBLAS_STATUS_INVALID_VALUE, what}; }

bool is_half(cudaDataType type) { return type == CUDA_R_16BF || type == CUDA_R_16F; }

bool is_known(cublasLtEpilogue_t epilogue) {
  constexpr std::array kKnown{
      CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_BIAS,        CUBLASLT_EPILOGUE_RELU,
      CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_RELU_AUX,    CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
      CUBLASLT_EPILOGUE_DRELU,     CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,
      CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,    CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
      CUBLASLT_EPILOGUE_DGELU,     CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
      CUBLASLT_EPILOGUE_BGRADB};
  return std::find(kKnown.begin(), kKnown.end(), epilogue) != kKnown.end();
}

// The sums are f32; the result is f32 or has the operands' type.
bool types_agree(const Matmul& x) {
  const bool tf32 = x.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (x.desc.compute != CUBLAS_COMPUTE_32F && !(tf32 && x.a.type == CUDA_R_32F)) return false;
  return x.a.type == x.b.type && x.c.type == x.d.type && (x.d.type == x.a.type || x.d.type == CUDA_R_32F);
}

bool offers_epilogue(const Matmul& x) {
  if (x.desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
  if (!settings().epilogues || x.bias_type() != x.d.type) return false;
  // With a second output or input: of one 16-bit type throughout.
  if (x.uses_aux() && !(is_half(x.d.type) && x.aux_type() == x.d.type)) return false;
  return x.d.batch == 1 || !(x.writes_bias() || x.uses_aux());
}

Answer check_aux(const Matmul& x) {
  if (!x.uses_aux()) return {};
  const std::int64_t ld = x.desc.aux_ld, rows = std::int64_t(x.m());
  if (x.aux_is_mask() && (ld < rows || ld % 128 != 0))
    return mistake("EPILOGUE_AUX_LD of a ReLU's mask is " + std::to_string(ld) +
                   " bits, not a multiple of 128 of at least " + std::to_string(rows));
  if (!x.aux_is_mask() && (ld < rows || ld % 8 != 0))
    return mistake("EPILOGUE_AUX_LD is " + std::to_string(ld) + ", not a multiple of 8 of at least " +
                   std::to_string(rows));
  return {};
}

bool shapes_agree(const Matmul& x) {
  const bool ta = x.desc.a != CUBLAS_OP_N, tb = x.desc.b != CUBLAS_OP_N;
  return (ta ? x.a.cols : x.a.rows) == x.m() && (tb ? x.b.rows : x.b.cols) == x.n() &&
         (tb ? x.b.cols : x.b.rows) == x.k() && x.c.rows == x.d.rows && x.c.cols == x.d.cols &&
         x.a.batch == x.d.batch && x.b.batch == x.d.batch && x.c.batch == x.d.batch;
}

std::uint64_t product_of(const Matmul& x) {
  std::uint64_t key = 0;
  for (const int part : {int(x.a.type), int(x.d.type), int(x.desc.a), int(x.desc.b), int(x.desc.epilogue),
                         int(x.desc.compute), int(x.bias_type()), int(x.aux_type())})
    key = key * 1009 + std::uint64_t(part);
  return key;
}

bool is_aligned(const MatrixLayout& l, std::size_t alignment) {
  const std::size_t size = size_of(l.type);
  return std::size_t(l.ld) * size % alignment == 0 && std::size_t(l.stride) * size % alignment == 0;
}
bool is_aligned(const void* p, std::size_t alignment) { return reinterpret_cast<std::uintptr_t>(p) % alignment == 0; }

// Without tensor cores: any alignment, and only simple epilogues.
bool is_simple(const Matmul& x) { return !x.uses_aux() && !x.writes_bias(); }

std::vector<Algorithm> all_algorithms(const Matmul& x) {
  const std::uint64_t elements = x.m() * x.n() * std::uint64_t(x.d.batch), product = product_of(x);
  const auto element = std::uint16_t(size_of(x.a.type));
  const std::uint16_t bias = is_aligned(x.desc.bias, kTensorCoreAlignment) ? kTensorCoreAlignment : element;
  std::vector<Algorithm> all{
      {kMagic, 1, kTensorCoreAlignment, bias, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 0, product},
      {kMagic, 2, kTensorCoreAlignment, bias, 2, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, elements * 4 * 2, product},
      {kMagic, 3, kTensorCoreAlignment, bias, 2, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE,
       elements * size_of(x.d.type) * 2, product},
  };
  if (is_simple(x)) all.push_back({kMagic, 4, element, element, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 0, product});
  return all;
}

}  // namespace

Answer check_product(const Matmul& x) {
  if (!shapes_agree(x)) return mistake("shapes, batch counts or transpositions don't fit each other");
  if (!is_known(x.desc.epilogue)) return mistake("no epilogue has the number " + std::to_string(int(x.desc.epilogue)));
  if (x.m() == 0 || x.n() == 0 || x.k() == 0) return no();
  if (!types_agree(x) || !offers_epilogue(x)) return no();
  return check_aux(x);
}

std::vector<Algorithm> find_algorithms(const Matmul& x, const MatmulPreference& p) {
  std::vector<Algorithm> found = all_algorithms(x);
  std::erase_if(found, [&](const Algorithm& a) {
    const bool reduces = a.reduction != CUBLASLT_REDUCTION_SCHEME_NONE;
    const bool aligned = std::min({p.alignment_a, p.alignment_b, p.alignment_c, p.alignment_d}) >= a.alignment &&
                         is_aligned(x.a, a.alignment) && is_aligned(x.b, a.alignment) && is_aligned(x.c, a.alignment) &&
                         is_aligned(x.d, a.alignment);
    return !aligned || (x.uses_aux() && !is_aligned(x.desc.aux, kTensorCoreAlignment)) || a.workspace > p.workspace ||
           (reduces && (a.reduction & p.reductions) == 0);
  });
  return found;
}

Answer check_algorithm(const Matmul& x, const Algorithm& a, const void* workspace, std::size_t workspace_size) {
  if (a.magic != kMagic) return mistake("the algorithm is none of cublasLtMatmulAlgoGetHeuristic's");
  if (a.product != product_of(x))
    return mistake("the algorithm was found for other types, transpositions or another epilogue");
  for (const auto& [name, p] : {std::pair{"A", x.pa}, {"B", x.pb}, {"C", x.pc}, {"D", static_cast<const void*>(x.pd)}})
    if (!is_aligned(p, a.alignment))
      return {CUBLAS_STATUS_NOT_SUPPORTED, std::string(name) + " is not aligned to " + std::to_string(a.alignment) +
                                               " bytes, as was promised when the algorithm was found"};
  if (x.uses_bias() && !is_aligned(x.desc.bias, a.bias_alignment))
    return {CUBLAS_STATUS_NOT_SUPPORTED, "the bias is less aligned than when the algorithm was found"};
  if (x.uses_aux() && !is_aligned(x.desc.aux, kTensorCoreAlignment))
    return {CUBLAS_STATUS_NOT_SUPPORTED, "the auxiliary matrix is not aligned to 16 bytes"};
  if (a.workspace > workspace_size)
    return mistake("the algorithm needs a workspace of " + std::to_string(a.workspace) + " bytes, and has " +
                   std::to_string(workspace_size));
  if (workspace_size > 0 && !is_aligned(workspace, kWorkspaceAlignment))
    return mistake("the workspace is not aligned to 256 bytes");
  return {};
}

}  // namespace tessera::cuda_emulator
