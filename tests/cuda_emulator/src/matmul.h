#pragma once

#include <cstddef>
#include <cstdint>
#include <cublasLt.h>
#include <string>

namespace tessera::cuda_emulator {

/// What cublasLt's opaque handles hold here. Matrices are column-major.
struct MatrixLayout {
  cudaDataType type;
  std::uint64_t rows, cols;
  std::int64_t ld;  // elements from a column to the next
  std::int32_t batch = 1;
  std::int64_t stride = 0;  // elements from a matrix of the batch to the next
};

struct MatmulDesc {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  std::int64_t aux_ld = 0, aux_stride = 0;
  std::int32_t bias_type = -1, aux_type = -1;  // -1: D's
  std::int32_t sm_count = 0;
  std::int8_t fast_accumulation = 0;
};

struct MatmulPreference {
  std::uint64_t workspace = 0;  // bytes at most
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment_a = 256, alignment_b = 256, alignment_c = 256, alignment_d = 256;  // bytes
};

/// D = epilogue(alpha op(A) op(B) + beta C).
struct Matmul {
  MatmulDesc desc;
  MatrixLayout a, b, c, d;
  const void *pa, *pb, *pc;
  void* pd;
  float alpha, beta;

  std::uint64_t m() const { return d.rows; }
  std::uint64_t n() const { return d.cols; }
  std::uint64_t k() const { return desc.a == CUBLAS_OP_N ? a.cols : a.rows; }
  cudaDataType bias_type() const { return desc.bias_type < 0 ? d.type : static_cast<cudaDataType>(desc.bias_type); }
  cudaDataType aux_type() const { return desc.aux_type < 0 ? d.type : static_cast<cudaDataType>(desc.aux_type); }

  // cublasLtEpilogue_t is a set of flags; some have no name of their own.
  bool has(int flags) const { return (int(desc.epilogue) & flags) == flags; }
  bool uses_aux() const { return has(128); }
  bool aux_is_mask() const { return uses_aux() && (has(CUBLASLT_EPILOGUE_RELU) || has(CUBLASLT_EPILOGUE_DRELU)); }
  bool writes_bias() const { return has(16) || has(CUBLASLT_EPILOGUE_BGRADA) || has(CUBLASLT_EPILOGUE_BGRADB); }
  bool uses_bias() const { return has(CUBLASLT_EPILOGUE_BIAS) || writes_bias(); }
  std::uint64_t bias_length() const { return has(CUBLASLT_EPILOGUE_BGRADB) ? n() : m(); }
  std::size_t aux_bytes() const;
};

/// Of the types that the emulator multiplies: f32, bf16, f16. 0: another.
std::size_t size_of(cudaDataType type);

/// How the products over k are added: in `splits` sums, each in order; `rounded`: to D's type before they are added.
struct Summation {
  int splits = 1;
  bool rounded = false;
};

/// By plain loops, in f32; each batch one after the other.
void multiply(const Matmul& matmul, const Summation& summation);

}  // namespace tessera::cuda_emulator
