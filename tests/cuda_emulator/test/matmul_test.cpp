// Products of cublasLt against loops in double.
#include <cmath>
#include <cublasLt.h>
#include <random>

#include <gmock/gmock.h>

#include "harness.h"

namespace tessera::cuda_emulator {
namespace {

using ::testing::HasSubstr;

#define ASSERT_BLAS(call) ASSERT_EQ(call, CUBLAS_STATUS_SUCCESS)
#define EXPECT_BLAS(call) EXPECT_EQ(call, CUBLAS_STATUS_SUCCESS)

std::vector<float> random_values(std::size_t n) {
  static std::mt19937 generator(1);
  std::normal_distribution<float> distribution;
  std::vector<float> values(n);
  for (float& v : values) v = distribution(generator);
  return values;
}

/// One f32 product; column-major, leading dimensions without gaps.
struct Product {
  Product(int m_, int n_, int k_, cublasOperation_t ta, cublasOperation_t tb) : m(m_), n(n_), k(k_) {
    EXPECT_BLAS(cublasLtCreate(&handle));
    EXPECT_BLAS(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, ta);
    set(CUBLASLT_MATMUL_DESC_TRANSB, tb);
    const bool na = ta == CUBLAS_OP_N, nb = tb == CUBLAS_OP_N;
    EXPECT_BLAS(cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, na ? m : k, na ? k : m, na ? m : k));
    EXPECT_BLAS(cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, nb ? k : n, nb ? n : k, nb ? k : n));
    EXPECT_BLAS(cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, m, n, m));
  }
  ~Product() {
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(d);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(handle);
  }
  Product(const Product&) = delete;

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    EXPECT_BLAS(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value));
  }
  cublasStatus_t run(const float* pa, const float* pb, float* pd, float beta, cudaStream_t s) const {
    const float one = 1;
    return cublasLtMatmul(handle, desc, &one, pa, a, pb, b, &beta, pd, d, pd, d, nullptr, nullptr, 0, s);
  }

  int m, n, k;
  cublasLtHandle_t handle{};
  cublasLtMatmulDesc_t desc{};
  cublasLtMatrixLayout_t a{}, b{}, d{};
};

class MatmulTest : public EmulatorTest {};

TEST_F(MatmulTest, TransposedOperandsAndBetaAgreeWithALoop) {
  constexpr int kM = 12, kN = 20, kK = 8;
  for (const auto ta : {CUBLAS_OP_N, CUBLAS_OP_T})
    for (const auto tb : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      const std::vector<float> a = random_values(kM * kK), b = random_values(kK * kN), c = random_values(kM * kN);
      const Buffer<float> pa(a), pb(b), pd(c);
      const Stream s;
      const Product product(kM, kN, kK, ta, tb);
      ASSERT_BLAS(product.run(pa, pb, pd, 1, s));
      ASSERT_CUDA(cudaStreamSynchronize(s));
      const std::vector<float> got = pd.host();
      for (int i = 0; i < kM; ++i)
        for (int j = 0; j < kN; ++j) {
          double want = c[std::size_t(j * kM + i)];
          for (int l = 0; l < kK; ++l)
            want += double(a[std::size_t(ta == CUBLAS_OP_N ? l * kM + i : i * kK + l)]) *
                    b[std::size_t(tb == CUBLAS_OP_N ? j * kK + l : l * kN + j)];
          ASSERT_NEAR(got[std::size_t(j * kM + i)], want, 1e-4);
        }
    }
}

TEST_F(MatmulTest, TheBiasIsAddedToEachRowBeforeGelu) {
  constexpr int kM = 8, kN = 4, kK = 4;
  const std::vector<float> a = random_values(kM * kK), b = random_values(kK * kN), bias = random_values(kM);
  const Buffer<float> pa(a), pb(b), pbias(bias), pd(kM * kN);
  const Stream s;
  Product product(kM, kN, kK, CUBLAS_OP_N, CUBLAS_OP_N);
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_BIAS);
  product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, pbias.data);
  ASSERT_BLAS(product.run(pa, pb, pd, 0, s));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  const std::vector<float> got = pd.host();
  for (int i = 0; i < kM; ++i)
    for (int j = 0; j < kN; ++j) {
      double x = bias[std::size_t(i)];
      for (int l = 0; l < kK; ++l) x += double(a[std::size_t(l * kM + i)]) * b[std::size_t(j * kK + l)];
      const double want = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      ASSERT_NEAR(got[std::size_t(j * kM + i)], want, 1e-5);
    }
}

TEST_F(MatmulTest, AnOperandThatIsTooShortIsRefused) {
  const Buffer<float> a(8 * 4), b(4 * 4 - 1), d(8 * 4);
  const Stream s;
  const Product product(8, 4, 4, CUBLAS_OP_N, CUBLAS_OP_N);
  EXPECT_EQ(product.run(a, b, d, 0, s), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(take_fault(), HasSubstr("B: 64 bytes there pass the end"));
}

}  // namespace
}  // namespace tessera::cuda_emulator
