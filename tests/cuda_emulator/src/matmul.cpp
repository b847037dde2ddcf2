#include "matmul.h"

#include <algorithm>
#include <cmath>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector>

namespace tessera::cuda_emulator {
namespace {

float load(const void* p, std::int64_t i, cudaDataType type) {
  switch (type) {
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(p)[i]);
    default:
      return static_cast<const float*>(p)[i];
  }
}

void store(void* p, std::int64_t i, cudaDataType type, float v) {
  switch (type) {
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(v);
      break;
    case CUDA_R_16F:
      static_cast<__half*>(p)[i] = __float2half(v);
      break;
    default:
      static_cast<float*>(p)[i] = v;
  }
}

constexpr float kSqrt2OverPi = 0.7978845608028654f, kCubic = 0.044715f;

float gelu(float x) { return 0.5f * x * (1 + std::tanh(kSqrt2OverPi * (x + kCubic * x * x * x))); }
float gelu_gradient(float x) {
  const float t = std::tanh(kSqrt2OverPi * (x + kCubic * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kSqrt2OverPi * (1 + 3 * kCubic * x * x);
}

// op(X) of one batch, column-major and without gaps, in f32.
std::vector<float> pack(const void* p, const MatrixLayout& l, cublasOperation_t op, int batch) {
  std::vector<float> packed(l.rows * l.cols);
  for (std::uint64_t c = 0; c < l.cols; ++c)
    for (std::uint64_t r = 0; r < l.rows; ++r)
      packed[op == CUBLAS_OP_N ? c * l.rows + r : r * l.cols + c] =
          load(p, batch * l.stride + std::int64_t(c) * l.ld + std::int64_t(r), l.type);
  return packed;
}

std::int64_t place(const MatrixLayout& l, int batch, std::uint64_t row, std::uint64_t col) {
  return batch * l.stride + std::int64_t(col) * l.ld + std::int64_t(row);
}

float read_aux(const Matmul& x, int batch, std::uint64_t row, std::uint64_t col) {
  const std::int64_t i = batch * x.desc.aux_stride + std::int64_t(col) * x.desc.aux_ld + std::int64_t(row);
  return load(x.desc.aux, i, x.aux_type());
}
void write_aux(const Matmul& x, int batch, std::uint64_t row, std::uint64_t col, float v) {
  const std::int64_t i = batch * x.desc.aux_stride + std::int64_t(col) * x.desc.aux_ld + std::int64_t(row);
  store(x.desc.aux, i, x.aux_type(), v);
}

// RELU's auxiliary output is a bit for each element, its ld in bits.
bool read_mask(const Matmul& x, int batch, std::uint64_t row, std::uint64_t col) {
  const std::int64_t bit = (batch * x.desc.aux_stride) + std::int64_t(col) * x.desc.aux_ld + std::int64_t(row);
  return (static_cast<const unsigned char*>(x.desc.aux)[bit / 8] >> bit % 8 & 1) != 0;
}
void write_mask(const Matmul& x, int batch, std::uint64_t row, std::uint64_t col, bool v) {
  const std::int64_t bit = (batch * x.desc.aux_stride) + std::int64_t(col) * x.desc.aux_ld + std::int64_t(row);
  auto& byte = static_cast<unsigned char*>(x.desc.aux)[bit / 8];
  byte = static_cast<unsigned char>((byte & ~(1 << bit % 8)) | (int(v) << bit % 8));
}

float apply_epilogue(const Matmul& x, int batch, std::uint64_t row, std::uint64_t col, float v) {
  if (x.has(CUBLASLT_EPILOGUE_BIAS)) v += load(x.desc.bias, std::int64_t(row), x.bias_type());
  if (x.has(CUBLASLT_EPILOGUE_DGELU)) return v * gelu_gradient(read_aux(x, batch, row, col));
  if (x.has(CUBLASLT_EPILOGUE_DRELU)) return read_mask(x, batch, row, col) ? v : 0;
  if (x.has(CUBLASLT_EPILOGUE_GELU)) {
    if (x.uses_aux()) write_aux(x, batch, row, col, v);
    return gelu(v);
  }
  if (x.has(CUBLASLT_EPILOGUE_RELU)) {
    if (x.uses_aux()) write_mask(x, batch, row, col, v > 0);
    return v > 0 ? v : 0;
  }
  return v;
}

void store_vector(const Matmul& x, const std::vector<float>& sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) store(x.desc.bias, std::int64_t(i), x.bias_type(), sums[i]);
}

// Sums over k: of the rows of op(A), of the columns of op(B).
void store_input_gradients(const Matmul& x, const std::vector<float>& a, const std::vector<float>& b) {
  const std::uint64_t m = x.m(), n = x.n(), k = x.k();
  if (x.has(CUBLASLT_EPILOGUE_BGRADA)) {
    std::vector<float> sums(m);
    for (std::uint64_t i = 0; i < m * k; ++i) sums[i % m] += a[i];
    store_vector(x, sums);
  }
  if (x.has(CUBLASLT_EPILOGUE_BGRADB)) {
    std::vector<float> sums(n);
    for (std::uint64_t i = 0; i < n * k; ++i) sums[i / k] += b[i];
    store_vector(x, sums);
  }
}

float rounded_to(float v, cudaDataType type) {
  switch (type) {
    case CUDA_R_16BF:
      return __bfloat162float(__float2bfloat16(v));
    case CUDA_R_16F:
      return __half2float(__float2half(v));
    default:
      return v;
  }
}

// Column j of op(A) op(B), from its packed operands.
std::vector<float> multiply_column(const Matmul& x, const float* a, const float* b, const Summation& summation) {
  const std::uint64_t m = x.m(), k = x.k(), splits = std::uint64_t(summation.splits);
  std::vector<float> sum(m), part(m);
  for (std::uint64_t s = 0; s < splits; ++s) {
    std::fill(part.begin(), part.end(), 0.0f);
    for (std::uint64_t l = k * s / splits; l < k * (s + 1) / splits; ++l)
      for (std::uint64_t i = 0; i < m; ++i) part[i] += a[l * m + i] * b[l];
    for (std::uint64_t i = 0; i < m; ++i) sum[i] += summation.rounded ? rounded_to(part[i], x.d.type) : part[i];
  }
  return sum;
}

void multiply_batch(const Matmul& x, int batch, const Summation& summation) {
  const std::uint64_t m = x.m(), n = x.n(), k = x.k();
  const std::vector<float> a = pack(x.pa, x.a, x.desc.a, batch), b = pack(x.pb, x.b, x.desc.b, batch);  // m x k, k x n
  std::vector<float> bias_gradient(m);
  for (std::uint64_t j = 0; j < n; ++j) {
    const std::vector<float> sum = multiply_column(x, a.data(), &b[j * k], summation);
    for (std::uint64_t i = 0; i < m; ++i) {
      float v = x.alpha * sum[i];
      if (x.beta != 0) v += x.beta * load(x.pc, place(x.c, batch, i, j), x.c.type);
      v = apply_epilogue(x, batch, i, j, v);
      bias_gradient[i] += v;
      store(x.pd, place(x.d, batch, i, j), x.d.type, v);
    }
  }
  if (x.has(16)) store_vector(x, bias_gradient);
  store_input_gradients(x, a, b);
}

}  // namespace

std::size_t size_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16BF:
    case CUDA_R_16F:
      return 2;
    default:
      return 0;
  }
}

std::size_t Matmul::aux_bytes() const {
  if (!uses_aux()) return 0;
  const std::uint64_t elements = (n() - 1) * std::uint64_t(desc.aux_ld) + m();
  return aux_is_mask() ? (elements + 7) / 8 : elements * size_of(aux_type());
}

void multiply(const Matmul& matmul, const Summation& summation) {
  for (int batch = 0; batch < matmul.d.batch; ++batch) multiply_batch(matmul, batch, summation);
}

}  // namespace tessera::cuda_emulator
