#include "device/cpu/matmul.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "device/cpu/elementwise_program.h"
#include "device/cpu/gemm.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

namespace tessera::device::cpu {
namespace {

struct Matmul {
  GemmSpec gemm;
  bool bias = false, residual = false;
  std::string activation;  // with its constant: "relu", "leaky_relu 0.2"; "": none
};

/// A matrix as it lies in memory: one side is the last dimension, the other all those before it.
Matmul parse(const KernelSpec& spec) {
  const auto& attributes = spec.attributes;
  Matmul p;
  auto& [m, n, k, transpose_a, transpose_b] = p.gemm.shape;
  transpose_a = flag(attributes, "transpose_a");
  transpose_b = flag(attributes, "transpose_b");
  p.bias = flag(attributes, "bias");
  p.residual = flag(attributes, "residual");
  p.activation = attributes.get_or<std::string>("activation", "");
  if (p.activation == "linear") p.activation.clear();
  p.gemm.accumulate = flag(attributes, "accumulate");
  if (attributes.has("alpha")) p.activation += fmt::format(" {}", number(attributes, "alpha"));
  require_counts(spec, 2 + (p.bias ? 1 : 0) + (p.residual ? 1 : 0), 1);

  const auto a = rows_of(input(spec, 0)), b = rows_of(input(spec, 1)), y = rows_of(output(spec, 0));
  m = transpose_a ? a.cols : a.rows;
  k = transpose_a ? a.rows : a.cols;
  n = transpose_b ? b.rows : b.cols;
  require(spec, (transpose_b ? b.cols : b.rows) == k && y.rows == m && y.cols == n, "a, b and y do not fit");
  if (p.bias) require_input(spec, 2, {n});
  if (p.residual) require_input(spec, p.bias ? 3 : 2, spec.outputs[0].shape);
  require(spec, !p.gemm.accumulate || (!p.bias && !p.residual && p.activation.empty()),
          "what accumulates has neither bias nor activation nor residual");
  return p;
}

/// Bias, activation and residual as one chain of elementwise steps over parts of y.
class ElementwiseEpilogue final : public Epilogue {
 public:
  ElementwiseEpilogue(const Matmul& p, int threads)
      : cols_(p.gemm.shape.n), program_(text(p), shapes(p), {p.gemm.shape.m, cols_}, {}, threads) {}

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
  static std::string text(const Matmul& p) {
    std::string steps, last = "i0";
    int count = 0;
    const auto then = [&](const std::string& step) {
      steps += (count > 0 ? " | " : "") + step;
      last = "t" + std::to_string(count++);
    };
    if (p.bias) then("add i0 i1");
    if (!p.activation.empty()) {
      const auto space = p.activation.find(' ');
      then(p.activation.substr(0, space) + " " + last + (space == std::string::npos ? "" : p.activation.substr(space)));
    }
    if (p.residual) then("add " + last + (p.bias ? " i2" : " i1"));
    return steps;
  }

  static std::vector<Shape> shapes(const Matmul& p) {
    const auto& s = p.gemm.shape;
    std::vector<Shape> list{{s.m, s.n}};
    if (p.bias) list.push_back({s.n});
    if (p.residual) list.push_back({s.m, s.n});
    return list;
  }

  std::int64_t cols_;
  ElementwiseProgram program_;
  const void* inputs_[3] = {};
  void* outputs_[1] = {};
};

class MatmulKernel final : public Kernel {
 public:
  MatmulKernel(const KernelSpec& spec, Context& context) : matmul_(parse(spec)) {
    auto& gemm = matmul_.gemm;
    const auto chosen = context.choices.find(gemm.shape);
    const auto name = chosen ? *chosen : gemm_candidates(gemm.shape, context.threads)[0];
    const bool fused = gemm_fuses(name) && matmul_.bias && !matmul_.residual &&
                       (matmul_.activation.empty() || matmul_.activation == "relu");
    gemm.fuse_bias = fused;
    gemm.fuse_relu = fused && !matmul_.activation.empty();
    const auto& [m, n, k, transpose_a, transpose_b] = gemm.shape;
    if (m * n * k > 0) gemm_ = make_gemm(name, gemm, context);
    const bool more = matmul_.bias || matmul_.residual || !matmul_.activation.empty();
    if (more && (!fused || k == 0)) epilogue_.emplace(matmul_, context.threads);
  }

  void run(const void* const* inputs, void* const* outputs, const StepParams& params) override {
    const auto& gemm = matmul_.gemm;
    const Args args{inputs, outputs, params};
    auto* y = args.out(0);
    if (epilogue_) epilogue_->bind(y, inputs + 2, (matmul_.bias ? 1 : 0) + (matmul_.residual ? 1 : 0));
    const float beta = gemm.accumulate && params.micro_batch > 0 ? 1.0F : 0.0F;
    if (gemm_) {
      const float* bias = gemm.fuse_bias ? args.in(2) : nullptr;
      gemm_->run({args.in(0), args.in(1), bias, y, beta}, epilogue_ ? &*epilogue_ : nullptr);
    } else if (gemm.shape.m * gemm.shape.n > 0) {  // nothing to sum over
      if (beta == 0) std::fill_n(y, gemm.shape.m * gemm.shape.n, 0.0F);
      if (epilogue_) epilogue_->run_all();
    }
  }

 private:
  Matmul matmul_;
  std::unique_ptr<Gemm> gemm_;
  std::optional<ElementwiseEpilogue> epilogue_;
};

}  // namespace

bool choose_matmul(const KernelSpec& spec, Context& context) {
  const auto shape = parse(spec).gemm.shape;
  constexpr double kUntimed = 1e5;  // flops: 3 us, less than what surrounds it
  if (context.choices.find(shape) || 2.0 * shape.m * shape.n * shape.k < kUntimed) return false;

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
  context.choices.set(shape, names[static_cast<std::size_t>(chosen - seconds.begin())]);
  return true;
}

std::int64_t matmul_scratch(const KernelSpec& spec) { return gemm_scratch_bytes(parse(spec).gemm.shape); }

std::unique_ptr<Kernel> make_matmul(const KernelSpec& spec, Context& context) {
  return std::make_unique<MatmulKernel>(spec, context);
}

}  // namespace tessera::device::cpu
