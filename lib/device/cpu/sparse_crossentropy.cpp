#include <cmath>

#include "device/classes.h"
#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/sparse_crossentropy.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {

double sparse_sum_exp(const float* x, std::int64_t n, float m) {
  return sum_lanes(
      n, [=](auto d, std::int64_t i) HWY_ATTR { return exponential(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, m))); });
}

double sparse_log_sum_exp(const float* x, std::int64_t n) {
  const auto m = max_of(x, n);
  const auto sum = sum_lanes(
      n, [=](auto d, std::int64_t i) HWY_ATTR { return exponential(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, m))); });
  return static_cast<double>(m) + std::log(sum);
}

double sparse_sum(const float* x, std::int64_t n) {
  return sum_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
}

/// dx = factor exp(x - lse)
void scaled_softmax(const float* x, float* dx, std::int64_t n, float lse, float factor) {
  for_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto p = exponential(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, lse)));
    hn::StoreU(hn::Mul(hn::Set(d, factor), p), d, dx + i);
  });
}

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::device::cpu {

HWY_EXPORT(sparse_sum_exp);
HWY_EXPORT(sparse_log_sum_exp);
HWY_EXPORT(sparse_sum);
HWY_EXPORT(scaled_softmax);

namespace {

/// Throws Error (data) for the first label that is no class.
void check(const Classes& classes, const std::int32_t* labels, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r)
    if (!classes.known(labels[r])) throw Error(ExitCode::kData, classes.complaint(r, labels[r]));
}

}  // namespace

std::unique_ptr<Kernel> make_sparse_crossentropy(const KernelSpec& spec, Context& context) {
  require_counts(spec, 2, 2);
  const auto [rows, cols] = rows_of(input(spec, 0));
  require_labels(spec, 1, rows);
  for (std::size_t k = 0; k < 2; ++k) require(spec, elements(output(spec, k)) == rows, "outputs have one number a row");
  const Classes classes(spec, spec.inputs[0]);
  require(spec, classes.classes == cols, "its rows are whole");
  return kernel_of([rows = rows, cols = cols, classes, logits = flag(spec.attributes, "from_logits"),
                    threads = context.threads](const Args& args) {
    const auto* labels = args.in<std::int32_t>(1);
    check(classes, labels, rows);
    each_row(threads, rows, cols, [&](std::int64_t r) {
      const auto* x = args.in(0) + r * cols;
      const auto sum =
          logits ? HWY_DYNAMIC_DISPATCH(sparse_log_sum_exp)(x, cols) : HWY_DYNAMIC_DISPATCH(sparse_sum)(x, cols);
      args.out(1)[r] = static_cast<float>(logits ? sum : std::log(sum));
      if (classes.ignored.is(labels[r])) {
        args.out(0)[r] = 0;
      } else if (logits) {
        args.out(0)[r] = static_cast<float>(sum - static_cast<double>(x[labels[r]]));
      } else {
        args.out(0)[r] = -std::log(clip(static_cast<float>(static_cast<double>(x[labels[r]]) / sum)));
      }
    });
  });
}

std::unique_ptr<Kernel> make_sparse_crossentropy_backward(const KernelSpec& spec, Context& context) {
  require_counts(spec, 4, 1);
  const auto [rows, cols] = rows_of(input(spec, 0));
  require_labels(spec, 1, rows);
  for (std::size_t k = 2; k < 4; ++k)
    require(spec, elements(input(spec, k)) == rows, "lse and dl have one number a row");
  require_output(spec, 0, spec.inputs[0].shape);
  const Classes classes(spec, spec.inputs[0]);
  const bool logits = flag(spec.attributes, "from_logits");
  require(spec, logits || classes.classes == cols, "from probabilities its rows are whole");
  return kernel_of([rows = rows, cols = cols, classes, logits, threads = context.threads](const Args& args) {
    const auto* labels = args.in<std::int32_t>(1);
    each_row(threads, rows, cols, [&](std::int64_t r) {
      const auto* x = args.in(0) + r * cols;
      auto* dx = args.out(0) + r * cols;
      const auto dl = args.in(3)[r];
      if (classes.ignored.is(labels[r])) {
        std::fill_n(dx, cols, 0.0F);
      } else if (logits) {
        HWY_DYNAMIC_DISPATCH(scaled_softmax)(x, dx, cols, args.in(2)[r], dl);
        if (const auto c = classes.column(labels[r]); c >= 0) dx[c] -= dl;
      } else {  // l = log(sum) - log(x[label]) where it is not clipped
        const auto sum = HWY_DYNAMIC_DISPATCH(sparse_sum)(x, cols);
        const auto p = static_cast<double>(x[labels[r]]);
        const bool passes = !clipped(static_cast<float>(p / sum));
        std::fill_n(dx, cols, passes ? static_cast<float>(dl / sum) : 0.0F);
        if (passes) dx[labels[r]] = static_cast<float>(dl * (1 / sum - 1 / p));
      }
    });
  });
}

std::unique_ptr<Kernel> make_row_sum_exp_picked(const KernelSpec& spec, Context& context) {
  require_counts(spec, 3, 1);
  const auto [rows, cols] = rows_of(input(spec, 0));
  require(spec, elements(input(spec, 1)) == rows, "m has one number a row");
  require_labels(spec, 2, rows);
  require(spec, elements(output(spec, 0)) == 2 * rows, "the output has two numbers a row");
  const Classes classes(spec, spec.inputs[0]);
  return kernel_of([rows = rows, cols = cols, classes, threads = context.threads](const Args& args) {
    const auto* labels = args.in<std::int32_t>(2);
    check(classes, labels, rows);
    each_row(threads, rows, cols, [&](std::int64_t r) {
      const auto* x = args.in(0) + r * cols;
      const auto c = classes.ignored.is(labels[r]) ? -1 : classes.column(labels[r]);
      args.out(0)[2 * r] = static_cast<float>(HWY_DYNAMIC_DISPATCH(sparse_sum_exp)(x, cols, args.in(1)[r]));
      args.out(0)[2 * r + 1] = c >= 0 ? x[c] : 0.0F;
    });
  });
}

std::unique_ptr<Kernel> make_sparse_crossentropy_finish(const KernelSpec& spec, Context& /*context*/) {
  require_counts(spec, 3, 2);
  const auto rows = elements(input(spec, 0));
  require(spec, elements(input(spec, 1)) == 2 * rows, "sp has two numbers a row");
  require_labels(spec, 2, rows);
  for (std::size_t k = 0; k < 2; ++k) require(spec, elements(output(spec, k)) == rows, "outputs have one number a row");
  return kernel_of([rows, ignored = IgnoredClass(spec)](const Args& args) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto lse = static_cast<double>(args.in(0)[r]) + std::log(static_cast<double>(args.in(1)[2 * r]));
      const bool ignore = ignored.is(args.in<std::int32_t>(2)[r]);
      args.out(0)[r] = ignore ? 0.0F : static_cast<float>(lse - static_cast<double>(args.in(1)[2 * r + 1]));
      args.out(1)[r] = static_cast<float>(lse);
    }
  });
}

}  // namespace tessera::device::cpu
#endif  // HWY_ONCE
