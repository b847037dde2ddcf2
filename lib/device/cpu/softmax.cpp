#include <cmath>

#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE double sum_exp(const float* x, std::int64_t n, float m) {
  return sum_lanes(
      n, [=](auto d, std::int64_t i) HWY_ATTR { return exponential(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, m))); });
}

HWY_INLINE void finish(const float* x, float* y, std::int64_t n, float m, double sum, bool log) {
  if (log) {
    const auto log_sum = static_cast<float>(std::log(sum));
    for_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {
      const auto shifted = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, m));
      hn::StoreU(hn::Sub(shifted, hn::Set(d, log_sum)), d, y + i);
    });
  } else {
    const auto scale = static_cast<float>(1 / sum);
    for_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {
      const auto e = exponential(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, m)));
      hn::StoreU(hn::Mul(e, hn::Set(d, scale)), d, y + i);
    });
  }
}

}  // namespace

void softmax_row(const float* x, float* y, std::int64_t n, bool log) {
  const auto m = max_of(x, n);
  if (log) return finish(x, y, n, m, sum_exp(x, n, m), true);
  const auto sum = sum_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {  // the exponentials are kept in y
    const auto e = exponential(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, m)));
    hn::StoreU(e, d, y + i);
    return e;
  });
  const auto scale = static_cast<float>(1 / sum);
  for_lanes(n, [=](auto d, std::int64_t i)
                   HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, y + i), hn::Set(d, scale)), d, y + i); });
}

float row_max(const float* x, std::int64_t n) { return max_of(x, n); }

float row_sum_exp(const float* x, std::int64_t n, float m) { return static_cast<float>(sum_exp(x, n, m)); }

void softmax_finish_row(const float* x, float* y, std::int64_t n, float m, float sum, bool log) {
  finish(x, y, n, m, static_cast<double>(sum), log);
}

/// sum y dy, of log_softmax sum dy.
float row_dot(const float* y, const float* dy, std::int64_t n, bool log) {
  const auto sum = log ? sum_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR { return hn::LoadU(d, dy + i); })
                       : sum_lanes(n, [=](auto d, std::int64_t i)
                                          HWY_ATTR { return hn::Mul(hn::LoadU(d, y + i), hn::LoadU(d, dy + i)); });
  return static_cast<float>(sum);
}

/// y (dy - dot), of log_softmax dy - exp(y) dot.
void softmax_backward_row(const float* y, const float* dy, float* dx, std::int64_t n, float dot, bool log) {
  if (log) {
    for_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {
      const auto p = exponential(d, hn::LoadU(d, y + i));
      hn::StoreU(hn::NegMulAdd(p, hn::Set(d, dot), hn::LoadU(d, dy + i)), d, dx + i);
    });
  } else {
    for_lanes(n, [=](auto d, std::int64_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::LoadU(d, y + i), hn::Sub(hn::LoadU(d, dy + i), hn::Set(d, dot))), d, dx + i);
    });
  }
}

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::device::cpu {

HWY_EXPORT(softmax_row);
HWY_EXPORT(row_max);
HWY_EXPORT(row_sum_exp);
HWY_EXPORT(softmax_finish_row);
HWY_EXPORT(row_dot);
HWY_EXPORT(softmax_backward_row);

std::unique_ptr<Kernel> make_softmax(const KernelSpec& spec, Context& context) {
  const auto rows = require_rows(spec, 1, 0, true);
  return kernel_of([rows, log = flag(spec.attributes, "log"), threads = context.threads](const Args& args) {
    each_row(threads, rows.rows, rows.cols, [&](std::int64_t r) {
      HWY_DYNAMIC_DISPATCH(softmax_row)(args.in(0) + r * rows.cols, args.out(0) + r * rows.cols, rows.cols, log);
    });
  });
}

std::unique_ptr<Kernel> make_softmax_backward(const KernelSpec& spec, Context& context) {
  const auto rows = require_rows(spec, 2, 0, true);
  return kernel_of([rows, log = flag(spec.attributes, "log"), threads = context.threads](const Args& args) {
    each_row(threads, rows.rows, rows.cols, [&](std::int64_t r) {
      const auto *y = args.in(0) + r * rows.cols, *dy = args.in(1) + r * rows.cols;
      const auto dot = HWY_DYNAMIC_DISPATCH(row_dot)(y, dy, rows.cols, log);
      HWY_DYNAMIC_DISPATCH(softmax_backward_row)(y, dy, args.out(0) + r * rows.cols, rows.cols, dot, log);
    });
  });
}

std::unique_ptr<Kernel> make_row_max(const KernelSpec& spec, Context& context) {
  const auto rows = require_rows(spec, 1, 0, false);
  return kernel_of([rows, threads = context.threads](const Args& args) {
    each_row(threads, rows.rows, rows.cols, [&](std::int64_t r) {
      args.out(0)[r] = HWY_DYNAMIC_DISPATCH(row_max)(args.in(0) + r * rows.cols, rows.cols);
    });
  });
}

std::unique_ptr<Kernel> make_row_sum_exp(const KernelSpec& spec, Context& context) {
  const auto rows = require_rows(spec, 1, 1, false);
  return kernel_of([rows, threads = context.threads](const Args& args) {
    each_row(threads, rows.rows, rows.cols, [&](std::int64_t r) {
      args.out(0)[r] = HWY_DYNAMIC_DISPATCH(row_sum_exp)(args.in(0) + r * rows.cols, rows.cols, args.in(1)[r]);
    });
  });
}

std::unique_ptr<Kernel> make_softmax_finish(const KernelSpec& spec, Context& context) {
  const auto rows = require_rows(spec, 1, 2, true);
  return kernel_of([rows, log = flag(spec.attributes, "log"), threads = context.threads](const Args& args) {
    each_row(threads, rows.rows, rows.cols, [&](std::int64_t r) {
      HWY_DYNAMIC_DISPATCH(softmax_finish_row)
      (args.in(0) + r * rows.cols, args.out(0) + r * rows.cols, rows.cols, args.in(1)[r], args.in(2)[r], log);
    });
  });
}

std::unique_ptr<Kernel> make_row_dot(const KernelSpec& spec, Context& context) {
  const auto rows = require_rows(spec, 2, 0, false);
  return kernel_of([rows, log = flag(spec.attributes, "log"), threads = context.threads](const Args& args) {
    each_row(threads, rows.rows, rows.cols, [&](std::int64_t r) {
      args.out(0)[r] =
          HWY_DYNAMIC_DISPATCH(row_dot)(args.in(0) + r * rows.cols, args.in(1) + r * rows.cols, rows.cols, log);
    });
  });
}

std::unique_ptr<Kernel> make_softmax_backward_finish(const KernelSpec& spec, Context& context) {
  const auto rows = require_rows(spec, 2, 1, true);
  return kernel_of([rows, log = flag(spec.attributes, "log"), threads = context.threads](const Args& args) {
    each_row(threads, rows.rows, rows.cols, [&](std::int64_t r) {
      const auto at = r * rows.cols;
      HWY_DYNAMIC_DISPATCH(softmax_backward_row)
      (args.in(0) + at, args.in(1) + at, args.out(0) + at, rows.cols, args.in(2)[r], log);
    });
  });
}

}  // namespace tessera::device::cpu
#endif  // HWY_ONCE
