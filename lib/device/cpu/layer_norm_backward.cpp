#include <cmath>

#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"
#include "device/norm_spec.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/layer_norm_backward.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vector-inl.h"

// With g = gamma dy, xhat = (x - mean) rstd and means over a row:
//   dx = rstd (g - mean(g) - xhat mean(g xhat)),  dgamma = sum over rows of dy xhat,  dbeta = sum over rows of dy.

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {

/// sums: of g and of g xhat over a row, in double.
void norm_sums_row(const float* dy, const float* x, const float* gamma, std::int64_t n, float mean, float rstd,
                   double* sums) {
  const auto g = [=](auto d, std::int64_t i) HWY_ATTR {
    const auto v = load_f64(d, dy + i);
    return gamma == nullptr ? v : hn::Mul(v, load_f64(d, gamma + i));
  };
  sums[0] = sum_lanes_f64(n, g);
  sums[1] = sum_lanes_f64(n, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto centred = hn::Sub(load_f64(d, x + i), hn::Set(d, static_cast<double>(mean)));
    return hn::Mul(g(d, i), hn::Mul(centred, hn::Set(d, static_cast<double>(rstd))));
  });
}

void norm_dx_row(const float* dy, const float* x, const float* gamma, float* dx, std::int64_t n, float mean, float rstd,
                 float mean_g, float mean_g_xhat) {
  for_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {
    auto g = hn::LoadU(d, dy + i);
    if (gamma != nullptr) g = hn::Mul(g, hn::LoadU(d, gamma + i));
    const auto xhat = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, rstd));
    const auto centred = hn::NegMulAdd(xhat, hn::Set(d, mean_g_xhat), hn::Sub(g, hn::Set(d, mean_g)));
    hn::StoreU(hn::Mul(centred, hn::Set(d, rstd)), d, dx + i);
  });
}

/// Adds a row to the sums over rows.
void norm_parameters_row(const float* dy, const float* x, float* dgamma, float* dbeta, std::int64_t n, float mean,
                         float rstd) {
  for_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, dy + i);
    const auto xhat = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, rstd));
    hn::StoreU(hn::MulAdd(g, xhat, hn::LoadU(d, dgamma + i)), d, dgamma + i);
    hn::StoreU(hn::Add(g, hn::LoadU(d, dbeta + i)), d, dbeta + i);
  });
}

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::device::cpu {

HWY_EXPORT(norm_sums_row);
HWY_EXPORT(norm_dx_row);
HWY_EXPORT(norm_parameters_row);

namespace {

std::int64_t blocks_of(std::int64_t rows) {
  constexpr std::int64_t kLeastRows = 16, kMostBlocks = 64;
  return std::clamp<std::int64_t>(rows / kLeastRows, 1, kMostBlocks);
}

/// The backward pass over blocks of rows. Sums over rows are made block by block in float and then over the blocks, in
/// order, in double; the blocks depend on the number of rows alone.
class NormBackward final : public Kernel {
 public:
  /// sums: input 4 are the row sums of all columns, where x's are split.
  NormBackward(const KernelSpec& spec, Context& context, bool sums)
      : spec_(parse_layer_norm_backward(spec, sums)),
        sums_(sums),
        threads_(context.threads),
        blocks_(blocks_of(norm_.rows)),
        partials_(context.scratch.take<float>(layer_norm_backward_scratch(spec))) {}

  void run(const void* const* inputs, void* const* outputs, const StepParams& params) override {
    const Args args{inputs, outputs, params};
    parallel_for(threads_, blocks_, row_grain(norm_.cols * (norm_.rows / blocks_ + 1)),
                 [&](std::int64_t first, std::int64_t last) {
                   for (auto b = first; b < last; ++b) run_block(args, b);
                 });
    if (spec_.parameters()) add_blocks(args);
  }

 private:
  float* partial(std::int64_t block, int which) const { return partials_ + (2 * block + which) * norm_.cols; }

  void run_block(const Args& args, std::int64_t block) const {
    const auto n = norm_.cols;
    if (spec_.parameters()) std::fill_n(partial(block, 0), 2 * n, 0.0F);
    for (auto r = norm_.rows * block / blocks_; r < norm_.rows * (block + 1) / blocks_; ++r) {
      const auto *dy = args.in(0) + r * n, *x = args.in(1) + r * n, *gamma = norm_.gamma(args);
      const auto mean = args.in(2)[r], rstd = args.in(3)[r];
      if (spec_.dx >= 0) {
        double own[2];
        const double* sums = own;
        if (sums_) {
          sums = args.in<double>(4) + 2 * r;
        } else {
          HWY_DYNAMIC_DISPATCH(norm_sums_row)(dy, x, gamma, n, mean, rstd, own);
        }
        HWY_DYNAMIC_DISPATCH(norm_dx_row)
        (dy, x, gamma, args.out(spec_.dx) + r * n, n, mean, rstd, static_cast<float>(sums[0] / norm_.all_cols),
         static_cast<float>(sums[1] / norm_.all_cols));
      }
      if (spec_.parameters())
        HWY_DYNAMIC_DISPATCH(norm_parameters_row)(dy, x, partial(block, 0), partial(block, 1), n, mean, rstd);
    }
  }

  void add_blocks(const Args& args) const {
    const bool add = spec_.accumulate && args.params.micro_batch > 0;
    for (const auto& [k, which] : {std::pair{spec_.dgamma, 0}, std::pair{spec_.dbeta, 1}}) {
      if (k < 0) continue;
      auto* y = args.out(k);
      for (std::int64_t c = 0; c < norm_.cols; ++c) {
        double sum = add ? static_cast<double>(y[c]) : 0.0;
        for (std::int64_t b = 0; b < blocks_; ++b) sum += static_cast<double>(partial(b, which)[c]);
        y[c] = static_cast<float>(sum);
      }
    }
  }

  NormBackwardSpec spec_;
  const NormSpec& norm_ = spec_.norm;
  bool sums_;
  int threads_;
  std::int64_t blocks_;
  float* partials_;
};

}  // namespace

std::int64_t layer_norm_backward_scratch(const KernelSpec& spec) {
  const auto [rows, cols] = norm_partials(spec);
  return blocks_of(rows) * 2 * cols * static_cast<std::int64_t>(sizeof(float));
}

std::unique_ptr<Kernel> make_layer_norm_backward(const KernelSpec& spec, Context& context) {
  return std::make_unique<NormBackward>(spec, context, false);
}

std::unique_ptr<Kernel> make_layer_norm_backward_finish(const KernelSpec& spec, Context& context) {
  return std::make_unique<NormBackward>(spec, context, true);
}

std::unique_ptr<Kernel> make_layer_norm_backward_sums(const KernelSpec& spec, Context& context) {
  const auto norm = parse_layer_norm_backward_sums(spec);
  return kernel_of([norm, threads = context.threads](const Args& args) {
    each_row(threads, norm.rows, norm.cols, [&](std::int64_t r) {
      const auto at = r * norm.cols;
      HWY_DYNAMIC_DISPATCH(norm_sums_row)
      (args.in(0) + at, args.in(1) + at, norm.gamma(args), norm.cols, args.in(2)[r], args.in(3)[r],
       args.out<double>(0) + 2 * r);
    });
  });
}

}  // namespace tessera::device::cpu
#endif  // HWY_ONCE
