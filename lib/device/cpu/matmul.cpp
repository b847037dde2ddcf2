#include "device/cpu/matmul.h"

#include <algorithm>
#include <optional>

#include "device/cpu/elementwise_program.h"
#include "device/cpu/gemm.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

namespace tessera::device::cpu {
namespace {

/// Bias, activation and residual as one chain of elementwise steps over parts of y.
class ElementwiseEpilogue final : public Epilogue {
 public:
  ElementwiseEpilogue(const MatmulSpec& p, int threads)
      : cols_(p.shape.n), program_(p.epilogue(), p.epilogue_shapes(), {p.shape.m, cols_}, {}, threads) {}

  void bind(float* y, const void* const* more, std::size_t count) {
    inputs_[0] = outputs_[0] = y;
    std::copy_n(more, count, inputs_ + 1);
  }

  void run(std::int64_t row, std::int64_t row_end, std::int64_t col, std::int64_t col_end, int part) override {
    if (col == 0 && col_end == cols_) {
      program_.run_part(inputs_, outputs_, row * cols_, row_end * cols_, part);
    } else {
      for (auto r = row; r < row_end; ++r)
        program_.run_part(inputs_, outputs_, r * cols_ + col, r * cols_ + col_end, part);
    }
  }

  void run_all() { program_.run(inputs_, outputs_); }

 private:
  std::int64_t cols_;
  ElementwiseProgram program_;
  const void* inputs_[3] = {};
  void* outputs_[1] = {};
};

class MatmulKernel final : public Kernel {
 public:
  MatmulKernel(const KernelSpec& spec, Context& context) : spec_(parse_matmul(spec)) {
    const auto& [m, n, k, transpose_a, transpose_b] = spec_.shape;
    const auto chosen = context.tuning.find(to_string(spec_.shape));
    const auto name = chosen ? *chosen : gemm_candidates(spec_.shape, context.threads)[0];
    const bool fused =
        gemm_fuses(name) && spec_.bias && !spec_.residual && (spec_.activation.empty() || spec_.activation == "relu");
    fuses_bias_ = fused;
    if (m * n * k > 0)
      gemm_ = make_gemm(name, {spec_.shape, spec_.accumulate, fused, fused && !spec_.activation.empty()}, context);
    if (spec_.has_epilogue() && (!fused || k == 0)) epilogue_.emplace(spec_, context.threads);
  }

  void run(const void* const* inputs, void* const* outputs, const StepParams& params) override {
    const auto& shape = spec_.shape;
    const Args args{inputs, outputs, params};
    auto* y = args.out(0);
    if (epilogue_) epilogue_->bind(y, inputs + 2, (spec_.bias ? 1 : 0) + (spec_.residual ? 1 : 0));
    const float beta = spec_.accumulate && params.micro_batch > 0 ? 1.0F : 0.0F;
    if (gemm_) {
      const float* bias = fuses_bias_ ? args.in(2) : nullptr;
      gemm_->run({args.in(0), args.in(1), bias, y, beta}, epilogue_ ? &*epilogue_ : nullptr);
    } else if (shape.m * shape.n > 0) {  // nothing to sum over
      if (beta == 0) std::fill_n(y, shape.m * shape.n, 0.0F);
      if (epilogue_) epilogue_->run_all();
    }
  }

 private:
  MatmulSpec spec_;
  bool fuses_bias_ = false;
  std::unique_ptr<Gemm> gemm_;
  std::optional<ElementwiseEpilogue> epilogue_;
};

}  // namespace

bool choose_matmul(const KernelSpec& spec, Context& context) {
  const auto shape = parse_matmul(spec).shape;
  constexpr double kUntimed = 1e5;  // flops: 3 us, less than what surrounds it
  if (context.tuning.find(to_string(shape)) || 2.0 * shape.m * shape.n * shape.k < kUntimed) return false;

  // A large problem is judged by a part of it: the libraries differ by shape and transposition, not by the last factor
  // of two.
  auto part = shape;
  constexpr double kMostFlops = 5e9;
  while (2.0 * part.m * part.n * part.k > kMostFlops) {
    auto& largest = part.m >= part.n && part.m >= part.k ? part.m : part.n >= part.k ? part.n : part.k;
    largest = (largest + 1) / 2;
  }
  const auto names = gemm_candidates(shape, context.threads);
  const auto seconds = time_gemms(names, part, context);
  constexpr double kEqual = 1.02;
  const auto least = *std::min_element(seconds.begin(), seconds.end());
  const auto chosen = std::find_if(seconds.begin(), seconds.end(), [&](double s) { return s <= least * kEqual; });
  context.tuning.set(to_string(shape), names[static_cast<std::size_t>(chosen - seconds.begin())]);
  return true;
}

std::int64_t matmul_scratch(const KernelSpec& spec) { return gemm_scratch_bytes(parse_matmul(spec).shape); }

std::unique_ptr<Kernel> make_matmul(const KernelSpec& spec, Context& context) {
  return std::make_unique<MatmulKernel>(spec, context);
}

}  // namespace tessera::device::cpu
