#include "device/cpu/reduce.h"

#include "device/cpu/kernels.h"
#include "device/reduction.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vector-inl.h"

#ifndef TESSERA_DEVICE_CPU_REDUCE_ONCE
#define TESSERA_DEVICE_CPU_REDUCE_ONCE
namespace tessera::device::cpu {

constexpr std::int64_t kColumnBlock = 256;   // columns of a task: sums stay in the first-level cache
constexpr std::int64_t kPartialRows = 4096;  // rows that are added in float

}  // namespace tessera::device::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {

double row_sum(const float* x, std::int64_t n) {
  return sum_lanes(n, [x](auto d, std::int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
}

double row_sum_squares(const float* x, std::int64_t n) {
  return sum_lanes_f64(n, [x](auto d, std::int64_t i) HWY_ATTR {
    const auto v = load_f64(d, x + i);
    return hn::Mul(v, v);
  });
}

/// sums[c] = sum over rows [begin, end) of x[row offset + c], c < cols <= kColumnBlock.
void column_sums(const float* x, const Walk& rows, std::int64_t begin, std::int64_t end, std::int64_t cols,
                 float* sums) {
  std::fill_n(sums, cols, 0.0F);
  auto r = begin;
  for (; r + 4 <= end; r += 4) {
    const float* p[4];
    for (int k = 0; k < 4; ++k) p[k] = x + rows.offset(r + k);
    for_lanes(cols, [&](auto d, std::int64_t c) HWY_ATTR {
      const auto first = hn::Add(hn::LoadU(d, p[0] + c), hn::LoadU(d, p[1] + c));
      const auto second = hn::Add(hn::LoadU(d, p[2] + c), hn::LoadU(d, p[3] + c));
      hn::StoreU(hn::Add(hn::LoadU(d, sums + c), hn::Add(first, second)), d, sums + c);
    });
  }
  for (; r < end; ++r) {
    const float* p = x + rows.offset(r);
    for_lanes(cols, [&](auto d, std::int64_t c)
                        HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, sums + c), hn::LoadU(d, p + c)), d, sums + c); });
  }
}

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::device::cpu {

HWY_EXPORT(row_sum);
HWY_EXPORT(row_sum_squares);
HWY_EXPORT(column_sums);

namespace {

struct Target {
  double scale;
  bool accumulate;

  void store(float* y, double sum, const StepParams& params) const {
    const auto before = accumulate && params.micro_batch > 0 ? static_cast<double>(*y) : 0.0;
    *y = static_cast<float>(before + sum * scale);
  }
};

// The last dimension is summed: an element of y is a sum of contiguous rows.
std::unique_ptr<Kernel> sum_rows(const Reduction& r, const Target& target, Context& context) {
  const auto results = r.kept.count(), rows = r.summed.count(), n = r.inner;
  if (results == 1 && rows == 1) {  // everything
    auto* partials = context.scratch.take<double>(partials_bytes(n));
    return kernel_of([=, threads = context.threads](const Args& args) {
      const auto* x = args.in(0);
      const auto sum = ordered_sum(threads, partials, n, 1, [x](std::int64_t begin, std::int64_t end) {
        return HWY_DYNAMIC_DISPATCH(row_sum)(x + begin, end - begin);
      });
      target.store(args.out(0), sum, args.params);
    });
  }
  return kernel_of([=, threads = context.threads](const Args& args) {
    const auto* x = args.in(0);
    auto* y = args.out(0);
    parallel_for(threads, results, row_grain(rows * n), [&](std::int64_t begin, std::int64_t end) {
      for (auto k = begin; k < end; ++k) {
        const auto* from = x + r.kept.offset(k);
        double sum = 0;
        for (std::int64_t row = 0; row < rows; ++row)
          sum += HWY_DYNAMIC_DISPATCH(row_sum)(from + r.summed.offset(row), n);
        target.store(y + k, sum, args.params);
      }
    });
  });
}

// Nothing is summed: y is, or gains, x times scale.
std::unique_ptr<Kernel> scale_elements(std::int64_t n, const Target& target, Context& context) {
  return kernel_of([=, threads = context.threads](const Args& args) {
    parallel_for(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto* x = args.in(0);
      auto* y = args.out(0);
      const auto scale = static_cast<float>(target.scale);
      if (target.accumulate && args.params.micro_batch > 0) {
        for (auto i = begin; i < end; ++i) y[i] += x[i] * scale;
      } else {
        for (auto i = begin; i < end; ++i) y[i] = x[i] * scale;
      }
    });
  });
}

std::int64_t row_blocks_of(const Reduction& r) {
  return std::max<std::int64_t>(1, (r.summed.count() + kPartialRows - 1) / kPartialRows);
}

/// A row of partial sums for each block of rows.
std::int64_t column_bytes(const Reduction& r) {
  return r.kept.count() * row_blocks_of(r) * r.inner * static_cast<std::int64_t>(sizeof(float));
}

// The last dimension stays: rows are added column by column, in blocks of rows that are then added in order.
std::unique_ptr<Kernel> sum_columns(const Reduction& r, const Target& target, Context& context) {
  const auto results = r.kept.count(), rows = r.summed.count(), cols = r.inner;
  const auto row_blocks = row_blocks_of(r);
  const auto col_blocks = (cols + kColumnBlock - 1) / kColumnBlock;
  auto* partials = context.scratch.take<float>(column_bytes(r));
  return kernel_of([=, threads = context.threads](const Args& args) {
    const auto* x = args.in(0);
    auto* y = args.out(0);
    const auto work = std::min(rows, kPartialRows) * std::min(cols, kColumnBlock);
    parallel_for(threads, results * row_blocks * col_blocks, row_grain(work),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (auto task = begin; task < end; ++task) {
                     const auto col = task % col_blocks * kColumnBlock, block = task / col_blocks;
                     const auto row = block % row_blocks * kPartialRows;
                     HWY_DYNAMIC_DISPATCH(column_sums)
                     (x + r.kept.offset(block / row_blocks) + col, r.summed, row, std::min(rows, row + kPartialRows),
                      std::min(kColumnBlock, cols - col), partials + block * cols + col);
                   }
                 });
    parallel_for(threads, results * cols, row_grain(row_blocks), [&](std::int64_t begin, std::int64_t end) {
      for (auto k = begin; k < end; ++k) {
        const auto* first = partials + k / cols * row_blocks * cols + k % cols;
        double sum = 0;
        for (std::int64_t b = 0; b < row_blocks; ++b) sum += static_cast<double>(first[b * cols]);
        target.store(y + k, sum, args.params);
      }
    });
  });
}

}  // namespace

std::int64_t reduce_sum_scratch(const KernelSpec& spec) {
  if (elements(spec.inputs.at(0).shape) == elements(spec.outputs.at(0).shape)) return 0;
  const auto r = parse_reduction(spec);
  if (!r.inner_summed) return column_bytes(r);
  return r.kept.count() == 1 && r.summed.count() == 1 ? partials_bytes(r.inner) : 0;
}

std::unique_ptr<Kernel> make_reduce_sum(const KernelSpec& spec, Context& context) {
  require_counts(spec, 1, 1);
  const auto reduction = parse_reduction(spec);
  const Target target{number_or(spec.attributes, "scale", 1), flag(spec.attributes, "accumulate")};
  if (elements(spec.inputs[0].shape) == elements(spec.outputs[0].shape))
    return scale_elements(elements(spec.outputs[0].shape), target, context);
  return reduction.inner_summed ? sum_rows(reduction, target, context) : sum_columns(reduction, target, context);
}

namespace {

/// In blocks, so that y stays in the cache while it grows. y may be x0.
template <class T>
std::unique_ptr<Kernel> add_kernel(std::int64_t n, int count, int threads) {
  return kernel_of([=](const Args& args) {
    parallel_for(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      constexpr std::int64_t kBlock = 4096;
      for (auto at = begin; at < end; at += kBlock) {
        const auto size = std::min(kBlock, end - at);
        auto* y = args.out<T>(0) + at;
        const auto* first = args.in<T>(0) + at;
        if (count == 1 && y != first) std::copy_n(first, size, y);
        for (int k = 1; k < count; ++k) {
          const auto *sum = k == 1 ? first : y, *x = args.in<T>(k) + at;
          for (std::int64_t i = 0; i < size; ++i) y[i] = sum[i] + x[i];
        }
      }
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_add_n(const KernelSpec& spec, Context& context) {
  require(spec, !spec.inputs.empty() && spec.outputs.size() == 1, "it adds one tensor or more");
  const auto dtype = spec.inputs[0].dtype;
  require(spec, dtype == DType::kF32 || dtype == DType::kF64, "it adds f32 or f64");
  const auto n = elements(input(spec, 0, dtype));
  for (std::size_t k = 1; k < spec.inputs.size(); ++k) require_input(spec, k, spec.inputs[0].shape, dtype);
  require_output(spec, 0, spec.inputs[0].shape, dtype);
  const auto count = static_cast<int>(spec.inputs.size());
  return dtype == DType::kF32 ? add_kernel<float>(n, count, context.threads)
                              : add_kernel<double>(n, count, context.threads);
}

double sum_squares(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(row_sum_squares)(x, n); }

std::int64_t sum_squares_scratch(const KernelSpec& spec) {
  return partials_bytes(elements(input(spec, 0)), kSquaresWeight);
}

std::unique_ptr<Kernel> make_sum_squares(const KernelSpec& spec, Context& context) {
  require_counts(spec, 1, 1);
  const auto n = elements(input(spec, 0));
  require_output(spec, 0, {}, DType::kF64);
  auto* partials = context.scratch.take<double>(sum_squares_scratch(spec));
  return kernel_of([n, partials, threads = context.threads](const Args& args) {
    const auto* x = args.in(0);
    *args.out<double>(0) = ordered_sum(threads, partials, n, kSquaresWeight, [x](std::int64_t begin, std::int64_t end) {
      return sum_squares(x + begin, end - begin);
    });
  });
}

}  // namespace tessera::device::cpu
#endif  // HWY_ONCE
