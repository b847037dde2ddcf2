// Products of cublasLt against loops in double, and what it refuses.
#include <cmath>
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <random>

#include <gmock/gmock.h>

#include "harness.h"

namespace tessera::cuda_emulator {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<float>;

#define ASSERT_BLAS(call) ASSERT_EQ(call, CUBLAS_STATUS_SUCCESS)
#define EXPECT_BLAS(call) EXPECT_EQ(call, CUBLAS_STATUS_SUCCESS)

/// Multiples of 1/8, which bf16 holds.
Values random_values(int n) {
  static std::mt19937 generator(1);
  std::uniform_int_distribution<int> distribution(-16, 16);
  Values values(std::size_t(n), 0.0f);
  for (float& v : values) v = float(distribution(generator)) / 8;
  return values;
}

/// A device matrix of f32 or bf16.
struct Matrix {
  Matrix(cudaDataType t, const Values& values) : type(t), n(values.size()), bytes(n * (t == CUDA_R_32F ? 4 : 2)) {
    std::vector<__nv_bfloat16> narrow(values.size());
    for (std::size_t i = 0; i < n; ++i) narrow[i] = __float2bfloat16(values[i]);
    const void* from = t == CUDA_R_32F ? static_cast<const void*>(values.data()) : narrow.data();
    EXPECT_CUDA(cudaMemcpy(bytes, from, bytes.size, cudaMemcpyHostToDevice));
  }
  Values host() const {
    const std::vector<char> raw = bytes.host();
    Values values(n);
    for (std::size_t i = 0; i < n; ++i)
      values[i] = type == CUDA_R_32F ? reinterpret_cast<const float*>(raw.data())[i]
                                     : __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(raw.data())[i]);
    return values;
  }
  cudaDataType type;
  std::size_t n;
  Buffer<char> bytes;
};

/// D (m, n) = op(A) (m, k) op(B) (k, n), column-major, leading dimensions without gaps.
struct Product {
  Product(int m_, int n_, int k_, cudaDataType in, cudaDataType out, cublasOperation_t ta = CUBLAS_OP_N,
          cublasOperation_t tb = CUBLAS_OP_N)
      : m(m_), n(n_), k(k_), transposed_a(ta != CUBLAS_OP_N), transposed_b(tb != CUBLAS_OP_N) {
    EXPECT_BLAS(cublasLtCreate(&handle));
    EXPECT_BLAS(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    EXPECT_BLAS(cublasLtMatmulPreferenceCreate(&preference));
    set(CUBLASLT_MATMUL_DESC_TRANSA, ta);
    set(CUBLASLT_MATMUL_DESC_TRANSB, tb);
    EXPECT_BLAS(cublasLtMatrixLayoutCreate(&a, in, transposed_a ? k : m, transposed_a ? m : k, transposed_a ? k : m));
    EXPECT_BLAS(cublasLtMatrixLayoutCreate(&b, in, transposed_b ? n : k, transposed_b ? k : n, transposed_b ? n : k));
    EXPECT_BLAS(cublasLtMatrixLayoutCreate(&d, out, m, n, m));
  }
  ~Product() {
    for (const auto layout : {a, b, d}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(handle);
  }
  Product(const Product&) = delete;

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    EXPECT_BLAS(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value));
  }
  template <typename T>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    EXPECT_BLAS(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
  }
  void set_epilogue(cublasLtEpilogue_t epilogue, const void* bias = nullptr, const void* aux = nullptr,
                    std::int64_t aux_ld = 0) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux_ld);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> find(cublasStatus_t expected = CUBLAS_STATUS_SUCCESS) const {
    std::vector<cublasLtMatmulHeuristicResult_t> found(8);
    int count = 0;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, d, d, preference, 8, found.data(), &count), expected);
    found.resize(std::size_t(count));
    return found;
  }
  cublasStatus_t run(const void* pa, const void* pb, void* pd, float beta = 0,
                     const cublasLtMatmulAlgo_t* algo = nullptr, void* workspace = nullptr,
                     std::size_t workspace_size = 0) const {
    const Stream s;
    const float one = 1;
    const cublasStatus_t status =
        cublasLtMatmul(handle, desc, &one, pa, a, pb, b, &beta, pd, d, pd, d, algo, workspace, workspace_size, s);
    EXPECT_CUDA(cudaStreamSynchronize(s));
    return status;
  }
  /// In double, from host values.
  std::vector<double> loop(const Values& va, const Values& vb) const {
    std::vector<double> want(std::size_t(m) * n, 0.0);
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < m; ++i)
        for (int l = 0; l < k; ++l)
          want[std::size_t(j * m + i)] += double(va[std::size_t(transposed_a ? i * k + l : l * m + i)]) *
                                          vb[std::size_t(transposed_b ? l * n + j : j * k + l)];
    return want;
  }

  int m, n, k;
  bool transposed_a, transposed_b;
  cublasLtHandle_t handle{};
  cublasLtMatmulDesc_t desc{};
  cublasLtMatmulPreference_t preference{};
  cublasLtMatrixLayout_t a{}, b{}, d{};
};

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

void expect_near(const Values& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << i;
}

constexpr auto kF32 = CUDA_R_32F, kBf16 = CUDA_R_16BF;

class MatmulTest : public EmulatorTest {
 protected:
  ~MatmulTest() override { offer_epilogues(true); }
};

TEST_F(MatmulTest, TransposedOperandsAndBetaAgreeWithALoop) {
  for (const auto ta : {CUBLAS_OP_N, CUBLAS_OP_T})
    for (const auto tb : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      const Product product(12, 20, 8, kF32, kF32, ta, tb);
      const Values a = random_values(12 * 8), b = random_values(8 * 20), c = random_values(12 * 20);
      const Matrix da(kF32, a), db(kF32, b), dd(kF32, c);
      ASSERT_BLAS(product.run(da.bytes, db.bytes, dd.bytes, 1));
      std::vector<double> want = product.loop(a, b);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += c[i];
      expect_near(dd.host(), want, 1e-5);
    }
}

TEST_F(MatmulTest, AnF32GradientAccumulatesFrom16BitOperands) {
  const Product product(16, 8, 32, kBf16, kF32, CUBLAS_OP_N, CUBLAS_OP_T);
  const Values a = random_values(16 * 32), b = random_values(8 * 32);
  const Matrix da(kBf16, a), db(kBf16, b), dd(kF32, Values(16 * 8, 0.0f));
  for (int times = 0; times < 3; ++times) ASSERT_BLAS(product.run(da.bytes, db.bytes, dd.bytes, 1));
  std::vector<double> want = product.loop(a, b);
  for (double& v : want) v *= 3;
  expect_near(dd.host(), want, 1e-5);
}

TEST_F(MatmulTest, EveryAlgorithmIsRightAndTellsItsWorkspace) {
  Product product(16, 8, 64, kF32, kF32);
  product.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(1) << 20);
  const Values a = random_values(16 * 64), b = random_values(64 * 8);
  const Matrix da(kF32, a), db(kF32, b), dd(kF32, Values(16 * 8, 0.0f));
  const Buffer<char> workspace(1 << 20);
  EXPECT_EQ(product.find().size(), 4u);
  for (const auto& found : product.find()) {
    ASSERT_BLAS(product.run(da.bytes, db.bytes, dd.bytes, 0, &found.algo, workspace, found.workspaceSize));
    expect_near(dd.host(), product.loop(a, b), 1e-5);
    if (found.workspaceSize == 0) continue;
    EXPECT_EQ(product.run(da.bytes, db.bytes, dd.bytes, 0, &found.algo, workspace, found.workspaceSize - 1),
              CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_THAT(take_fault(), HasSubstr("needs a workspace of"));
  }
  product.prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  EXPECT_EQ(product.find().size(), 3u);
  product.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(0));
  EXPECT_EQ(product.find().size(), 2u);
}

TEST_F(MatmulTest, AnOddLeadingDimensionLosesTheTensorCores) {
  const Product even(24, 8, 8, kBf16, kBf16), odd(25, 8, 8, kBf16, kBf16);
  EXPECT_EQ(even.find().size(), 2u);
  EXPECT_EQ(odd.find().size(), 1u);
  Product fused(25, 8, 8, kBf16, kBf16);
  const Buffer<char> aux(4096);
  fused.set_epilogue(CUBLASLT_EPILOGUE_GELU_AUX, nullptr, aux, 32);
  EXPECT_TRUE(fused.find(CUBLAS_STATUS_NOT_SUPPORTED).empty());
}

TEST_F(MatmulTest, AnAlgorithmWantsTheAlignmentThatWasPromised) {
  Product product(16, 8, 8, kF32, kF32);
  const Values a = random_values(16 * 8 + 1), b = random_values(8 * 8);
  const Matrix da(kF32, a), db(kF32, b), dd(kF32, Values(16 * 8, 0.0f));
  const auto promised = product.find();
  EXPECT_EQ(product.run(da.bytes + 4, db.bytes, dd.bytes, 0, &promised[0].algo), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_THAT(take_fault(), HasSubstr("A is not aligned to 16 bytes"));
  product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4u);
  const auto small = product.find();
  ASSERT_EQ(small.size(), 1u);
  ASSERT_BLAS(product.run(da.bytes + 4, db.bytes, dd.bytes, 0, &small[0].algo));
  expect_near(dd.host(), product.loop(Values(a.begin() + 1, a.end()), b), 1e-5);
}

TEST_F(MatmulTest, AnAlgorithmIsForItsOwnProduct) {
  Product product(16, 8, 8, kF32, kF32);
  const Matrix da(kF32, Values(16 * 8)), db(kF32, Values(8 * 8)), dd(kF32, Values(16 * 8));
  const auto found = product.find();
  product.set_epilogue(CUBLASLT_EPILOGUE_RELU);
  EXPECT_EQ(product.run(da.bytes, db.bytes, dd.bytes, 0, &found[0].algo), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(take_fault(), HasSubstr("another epilogue"));
}

TEST_F(MatmulTest, TheBiasIsAddedToEachRowBeforeGelu) {
  Product product(8, 4, 4, kF32, kF32);
  const Values a = random_values(8 * 4), b = random_values(4 * 4), bias = random_values(8);
  const Matrix da(kF32, a), db(kF32, b), dbias(kF32, bias), dd(kF32, Values(8 * 4));
  product.set_epilogue(CUBLASLT_EPILOGUE_GELU_BIAS, dbias.bytes);
  ASSERT_BLAS(product.run(da.bytes, db.bytes, dd.bytes));
  std::vector<double> want = product.loop(a, b);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = gelu(want[i] + bias[i % 8]);
  expect_near(dd.host(), want, 1e-5);
}

TEST_F(MatmulTest, GradientsOfBiasesAreSumsOverK) {
  const Values a = random_values(8 * 16), b = random_values(16 * 12);
  const Matrix da(kBf16, a), db(kBf16, b), dd(kF32, Values(8 * 12)), of_a(kF32, Values(8)), of_b(kF32, Values(12));
  Product product(8, 12, 16, kBf16, kF32);
  product.set_epilogue(CUBLASLT_EPILOGUE_BGRADA, of_a.bytes);
  ASSERT_BLAS(product.run(da.bytes, db.bytes, dd.bytes));
  product.set_epilogue(CUBLASLT_EPILOGUE_BGRADB, of_b.bytes);
  ASSERT_BLAS(product.run(da.bytes, db.bytes, dd.bytes));
  std::vector<double> sum_a(8, 0.0), sum_b(12, 0.0);
  for (std::size_t i = 0; i < a.size(); ++i) sum_a[i % 8] += a[i];
  for (std::size_t i = 0; i < b.size(); ++i) sum_b[i / 16] += b[i];
  expect_near(of_a.host(), sum_a, 1e-5);
  expect_near(of_b.host(), sum_b, 1e-5);
}

TEST_F(MatmulTest, AReluLeavesAMaskForItsGradient) {
  constexpr int kM = 8, kN = 16, kK = 8;
  const Values a = random_values(kM * kK), b = random_values(kK * kN), bias = random_values(kM);
  const Matrix da(kBf16, a), db(kBf16, b), dbias(kBf16, bias), dd(kBf16, Values(kM * kN));
  const Buffer<char> mask(128 / 8 * kN);
  Product forward(kM, kN, kK, kBf16, kBf16);
  forward.set_epilogue(CUBLASLT_EPILOGUE_RELU_AUX_BIAS, dbias.bytes, mask, 128);
  ASSERT_BLAS(forward.run(da.bytes, db.bytes, dd.bytes));
  std::vector<double> before = forward.loop(a, b), want(before.size()), gradient(before.size()), sums(kM, 0.0);
  for (std::size_t i = 0; i < before.size(); ++i) before[i] += bias[i % kM], want[i] = std::max(before[i], 0.0);
  expect_near(dd.host(), want, 1e-2);

  const Matrix dsums(kBf16, Values(kM)), dx(kBf16, Values(kM * kN));
  Product backward(kM, kN, kK, kBf16, kBf16);
  backward.set_epilogue(CUBLASLT_EPILOGUE_DRELU_BGRAD, dsums.bytes, mask, 128);
  ASSERT_BLAS(backward.run(da.bytes, db.bytes, dx.bytes));
  const std::vector<double> plain = backward.loop(a, b);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    gradient[i] = before[i] > 0 ? plain[i] : 0;
    sums[i % kM] += gradient[i];
  }
  expect_near(dx.host(), gradient, 1e-2);
  expect_near(dsums.host(), sums, 1e-2);
}

TEST_F(MatmulTest, AnEpilogueOutsideTheTableIsRefusedWithoutAFault) {
  const Buffer<char> vector(4096), aux(4096);
  Product f32(8, 8, 8, kF32, kF32);
  f32.set_epilogue(CUBLASLT_EPILOGUE_GELU_AUX, nullptr, aux, 8);
  EXPECT_TRUE(f32.find(CUBLAS_STATUS_NOT_SUPPORTED).empty());
  Product mixed(8, 8, 8, kBf16, kF32);
  mixed.set_epilogue(CUBLASLT_EPILOGUE_BIAS, vector);
  mixed.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t(kBf16));  // D's is f32
  EXPECT_TRUE(mixed.find(CUBLAS_STATUS_NOT_SUPPORTED).empty());
  EXPECT_EQ(take_fault(), "");

  Product biased(8, 8, 8, kF32, kF32);
  biased.set_epilogue(CUBLASLT_EPILOGUE_BIAS, vector);
  EXPECT_FALSE(biased.find().empty());
  offer_epilogues(false);
  EXPECT_TRUE(biased.find(CUBLAS_STATUS_NOT_SUPPORTED).empty());
}

TEST_F(MatmulTest, ALeadingDimensionOfAuxHasItsRules) {
  const Buffer<char> aux(4096);
  Product product(12, 8, 8, kBf16, kBf16);
  product.set_epilogue(CUBLASLT_EPILOGUE_GELU_AUX, nullptr, aux, 12);
  EXPECT_TRUE(product.find(CUBLAS_STATUS_INVALID_VALUE).empty());
  EXPECT_THAT(take_fault(), HasSubstr("EPILOGUE_AUX_LD is 12, not a multiple of 8"));
  product.set_epilogue(CUBLASLT_EPILOGUE_RELU_AUX, nullptr, aux, 64);
  EXPECT_TRUE(product.find(CUBLAS_STATUS_INVALID_VALUE).empty());
  EXPECT_THAT(take_fault(), HasSubstr("mask is 64 bits, not a multiple of 128"));
}

TEST_F(MatmulTest, OperandsMayNotBeTooShortNorOverlap) {
  Product product(8, 4, 4, kF32, kF32);
  const Buffer<float> a(8 * 4), b(4 * 4), d(8 * 4), short_b(4 * 4 - 1), short_bias(7);
  EXPECT_EQ(product.run(a, short_b, d), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(take_fault(), HasSubstr("B: 64 bytes there pass the end"));
  EXPECT_EQ(product.run(a, b, a), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(take_fault(), HasSubstr("D lies in an operand"));
  product.set_epilogue(CUBLASLT_EPILOGUE_BIAS, short_bias);
  EXPECT_EQ(product.run(a, b, d), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(take_fault(), HasSubstr("bias: 32 bytes there pass the end"));
  product.set_epilogue(CUBLASLT_EPILOGUE_BIAS, nullptr);
  EXPECT_EQ(product.run(a, b, d), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(take_fault(), HasSubstr("wants a pointer to its bias"));
}

}  // namespace
}  // namespace tessera::cuda_emulator
