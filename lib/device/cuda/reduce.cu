#include <vector>

#include "device/cuda/flat.h"
#include "device/cuda/kernels.h"
#include "device/cuda/rows.h"
#include "device/cuda/sum_index.h"
#include "device/cuda/sums.h"

namespace tessera::device::cuda {
namespace {

struct Target {
  float* y;
  double scale;
  bool add;

  __device__ void store(std::int64_t k, double sum) const {
    const double before = add ? y[k] : 0.0;
    y[k] = static_cast<float>(before + sum * scale);
  }
};

/// kRows: there is more than one row.
template <class Layout, bool kRows>
__global__ void __launch_bounds__(Layout::kThreads)
    sum_rows(const float* x, const __grid_constant__ RowSums sums, double* sums_of_parts, Target target) {
  constexpr std::int64_t kStep = Layout::kLanes * Layout::kWidth,
                         kRun = 64 * kStep;  // elements that are added in float
  const auto first = static_cast<std::int64_t>(threadIdx.x % Layout::kLanes) * Layout::kWidth;
  each_row<Layout>(sums.results * sums.cut.parts, [&](std::int64_t task, bool there) {
    const auto [k, terms] = sums.task(task);
    const auto begin = terms.begin, end = there ? terms.end : begin;
    const float* from = x + sums.kept(k);
    double sum = 0;
    for (auto run = begin; run < end; run += kRun) {
      float of_run = 0;
      const auto stop = min(end, run + kRun);
#pragma unroll 4
      for (auto i = run + first; i < stop; i += kStep) {
        const float* p = from + (kRows ? sums.offset(i) : i);
        if constexpr (Layout::kWidth == 4) {
          const float4 four = *reinterpret_cast<const float4*>(p);
          of_run += (four.x + four.y) + (four.z + four.w);
        } else {
          of_run += *p;
        }
      }
      sum += of_run;
    }
    sum = team_sum<Layout::kLanes>(sum);
    if (!leads<Layout>(there)) return;
    if (sums.cut.parts > 1) {
      sums_of_parts[task] = sum;
    } else {
      target.store(k, sum);
    }
  });
}

__global__ void __launch_bounds__(kSumThreads)
    add_row_sums(const double* sums_of_parts, std::int64_t results, std::int64_t parts, Target target) {
  for (auto k = static_cast<std::int64_t>(blockIdx.x); k < results; k += gridDim.x) {
    double sum = 0;
    for (auto p = static_cast<std::int64_t>(threadIdx.x); p < parts; p += kSumThreads)
      sum += sums_of_parts[k * parts + p];
    sum = team_sum<kSumThreads>(sum);
    if (threadIdx.x == 0) target.store(k, sum);
  }
}

/// A block adds kLanes * kWidth columns of one part of the rows.
template <int kLanes, int kWidth, class Sum>
__global__ void __launch_bounds__(kSumThreads)
    sum_columns(const float* x, const __grid_constant__ ColumnSums sums, float* sums_of_parts, Target target) {
  constexpr int kRows = kSumThreads / kLanes;
  __shared__ Sum of_rows[kRows][kLanes * kWidth];
  const int lane = static_cast<int>(threadIdx.x) % kLanes, row = static_cast<int>(threadIdx.x) / kLanes;
  const auto tasks = sums.results * sums.cut.parts * sums.tiles(kLanes * kWidth);
  for (auto number = static_cast<std::int64_t>(blockIdx.x); number < tasks; number += gridDim.x) {
    const auto [k, part, tile, rows] = sums.task(number, kLanes * kWidth);
    const auto c = tile + lane * kWidth;
    const float* from = x + sums.kept(k) + c;
    Sum sum[kWidth] = {};
    if (c < sums.cols) {
#pragma unroll 4
      for (auto r = rows.begin + row; r < rows.end; r += kRows) {
        const float* p = from + sums.summed(static_cast<std::uint32_t>(r));
        if constexpr (kWidth == 4) {
          const float4 four = *reinterpret_cast<const float4*>(p);
          sum[0] += four.x, sum[1] += four.y, sum[2] += four.z, sum[3] += four.w;
        } else {
          sum[0] += *p;
        }
      }
    }
    for (int j = 0; j < kWidth; ++j) of_rows[row][lane * kWidth + j] = sum[j];
    __syncthreads();
    const auto column = tile + threadIdx.x;
    if (threadIdx.x < kLanes * kWidth && column < sums.cols) {
      double total = 0;
      for (int j = 0; j < kRows; ++j) total += of_rows[j][threadIdx.x];
      if (sums.cut.parts > 1) {
        sums_of_parts[part * sums.cols + column] = static_cast<float>(total);
      } else {
        target.store(k * sums.cols + column, total);
      }
    }
    __syncthreads();
  }
}

template <int kLanes, int kWidth, class Sum>
void launch_columns(cudaStream_t stream, const float* x, const ColumnSums& sums, float* memory, const Target& target) {
  const auto tasks = sums.results * sums.cut.parts * sums.tiles(kLanes * kWidth);
  launch(stream, {blocks_for(tasks, 1), kSumThreads}, sum_columns<kLanes, kWidth, Sum>, x, sums, memory, target);
}

// Nothing is summed.

template <bool kAligned>
__global__ void __launch_bounds__(kFlatThreads) scale_elements(const float* x, std::int64_t n, Target target) {
  const auto scale = static_cast<float>(target.scale);
  each_four(n, [&](std::int64_t at, int count) {
    const auto from = load_four<kAligned>(x, at, count);
    Four to{};
    if (target.add) to = load_four<kAligned>(target.y, at, count);
    for (int j = 0; j < 4; ++j) to.v[j] += from.v[j] * scale;
    store_four<kAligned>(target.y, at, count, to);
  });
}

/// The target of a run.
auto target_of(const KernelSpec& spec) {
  return [scale = number_or(spec.attributes, "scale", 1),
          accumulate = flag(spec.attributes, "accumulate")](const Args& args) {
    return Target{args.out(0), scale, accumulate && args.micro_batch > 0};
  };
}

}  // namespace

std::unique_ptr<Kernel> make_reduce_sum(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 1, 1);
  const auto r = parse_reduction(spec);
  const auto target = target_of(spec);
  const auto bytes = reduce_sum_scratch(spec);
  if (const auto n = elements(spec.inputs[0].shape); n == elements(spec.outputs[0].shape))
    return kernel_of(context, stream, [=](const Args& args) {
      const bool aligned = aligned_to_four(args.in(0), args.out(0));
      launch(args.stream, flat_shape(n), aligned ? scale_elements<true> : scale_elements<false>, args.in(0), n,
             target(args));
    });
  const Offsets kept(spec, r.kept), summed(spec, r.summed);
  const auto results = r.kept.count(), rows = r.summed.count();
  if (r.inner_summed) {
    require(spec, rows == 1 || rows * r.inner <= INT32_MAX, "an element of the result has too many terms");
    auto* memory = context.scratch.take<double>(bytes);
    const RowSums sums{kept, summed, results, rows, r.inner, cut_sum(rows * r.inner, results)};
    return kernel_of(context, stream, [=](const Args& args) {
      const Rows parts{results * sums.cut.parts, std::min(rows * r.inner, sums.cut.length)};
      const int width = r.inner % 4 == 0 && aligned_to_four(args.in(0)) ? 4 : 1;
      with_rows(parts, width, [&]<class Layout>(Layout) {
        launch(args.stream, Layout::shape(parts.rows), rows == 1 ? sum_rows<Layout, false> : sum_rows<Layout, true>,
               args.in(0), sums, memory, target(args));
      });
      if (sums.cut.parts > 1)
        launch(args.stream, {blocks_for(results, 1), kSumThreads}, add_row_sums, memory, results, sums.cut.parts,
               target(args));
    });
  }
  auto* memory = context.scratch.take<float>(bytes);
  const ColumnSums sums{kept, summed, results, rows, r.inner, cut_rows(r)};
  require(spec, results * sums.cut.parts * r.inner <= UINT32_MAX, "the result is too large");
  const ColumnSums last{
      Offsets(sums.cut.parts * r.inner), Offsets(r.inner), results, sums.cut.parts, r.inner, {1, sums.cut.parts}};
  return kernel_of(context, stream, [=](const Args& args) {
    const bool four = sums.cols % 4 == 0 && aligned_to_four(args.in(0));
    const auto first = four             ? sums.cols <= 32 ? launch_columns<8, 4, float> : launch_columns<32, 4, float>
                                   : sums.cols <= 8 ? launch_columns<8, 1, float>
                                        : launch_columns<32, 1, float>;
    first(args.stream, args.in(0), sums, memory, target(args));
    if (sums.cut.parts > 1) launch_columns<8, 1, double>(args.stream, memory, last, nullptr, target(args));
  });
}

namespace {

constexpr int kMostTerms = 16;  // of one launch

struct Terms {
  const void* x[kMostTerms];
  int count;
};

/// 16 bytes of a thread at a time where all is aligned. y may be x0.
template <class T, bool kAligned>
__global__ void __launch_bounds__(kFlatThreads) add_terms(const __grid_constant__ Terms terms, T* y, std::int64_t n) {
  constexpr int kWidth = 16 / sizeof(T);
  struct alignas(16) Pack {
    T v[kWidth];
  };
  const auto stride = threads_of_grid() * kWidth;
  for (auto at = thread_of_grid() * kWidth; at < n; at += stride) {
    Pack sum{};
    if (kAligned && n - at >= kWidth) {
      sum = *reinterpret_cast<const Pack*>(static_cast<const T*>(terms.x[0]) + at);
      for (int k = 1; k < terms.count; ++k) {
        const Pack x = *reinterpret_cast<const Pack*>(static_cast<const T*>(terms.x[k]) + at);
        for (int j = 0; j < kWidth; ++j) sum.v[j] += x.v[j];
      }
      *reinterpret_cast<Pack*>(y + at) = sum;
      continue;
    }
    for (auto i = at; i < n && i < at + kWidth; ++i) {
      T total = static_cast<const T*>(terms.x[0])[i];
      for (int k = 1; k < terms.count; ++k) total += static_cast<const T*>(terms.x[k])[i];
      y[i] = total;
    }
  }
}

template <class T>
std::unique_ptr<Kernel> add_kernel(const Context& context, Stream stream, std::int64_t n, int count) {
  return kernel_of(context, stream, [=](const Args& args) {
    Terms terms{};
    for (int k = 0; k < count;) {
      terms.count = 0;
      if (k > 0) terms.x[terms.count++] = args.outputs[0];  // what has been added so far
      bool aligned = aligned_to_four(args.out<T>(0));
      for (; k < count && terms.count < kMostTerms; ++k) {
        terms.x[terms.count++] = args.inputs[k];
        aligned &= aligned_to_four(args.in<T>(k));
      }
      launch(args.stream, {blocks_for(n, kFlatThreads * (16 / sizeof(T))), kFlatThreads},
             aligned ? add_terms<T, true> : add_terms<T, false>, terms, args.out<T>(0), n);
    }
  });
}

}  // namespace

std::unique_ptr<Kernel> make_add_n(const KernelSpec& spec, Context& context, Stream stream) {
  require(spec, !spec.inputs.empty() && spec.outputs.size() == 1, "it adds one tensor or more");
  const auto dtype = spec.inputs[0].dtype;
  require(spec, dtype == DType::kF32 || dtype == DType::kF64, "it adds f32 or f64");
  const auto n = elements(input(spec, 0, dtype));
  for (std::size_t k = 1; k < spec.inputs.size(); ++k) require_input(spec, k, spec.inputs[0].shape, dtype);
  require_output(spec, 0, spec.inputs[0].shape, dtype);
  const auto count = static_cast<int>(spec.inputs.size());
  return dtype == DType::kF32 ? add_kernel<float>(context, stream, n, count)
                              : add_kernel<double>(context, stream, n, count);
}

namespace {

template <int kNeighbours>
struct Squares {
  using Sum = double;
  static constexpr int kWidth = kNeighbours;
  const float* x;
  std::int64_t n;

  __device__ std::int64_t count() const { return n; }
  __device__ double at(std::int64_t i) const { return static_cast<double>(x[i]) * static_cast<double>(x[i]); }
  __device__ double four(std::int64_t i) const {
    const float4 v = *reinterpret_cast<const float4*>(x + i);
    const double a = v.x, b = v.y, c = v.z, d = v.w;
    return (a * a + b * b) + (c * c + d * d);
  }
};

struct StoreDouble {
  double* y;

  __device__ void operator()(double sum) const { *y = sum; }
};

}  // namespace

std::unique_ptr<Kernel> make_sum_squares(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 1, 1);
  const auto n = elements(input(spec, 0));
  require_output(spec, 0, {}, DType::kF64);
  const auto cut = cut_sum(n);
  auto* memory = context.scratch.take<double>(sum_scratch(cut, sizeof(double)));
  return kernel_of(context, stream, [=](const Args& args) {
    const StoreDouble store{args.out<double>(0)};
    if (aligned_to_four(args.in(0))) {
      launch_sum(args.stream, cut, memory, Squares<4>{args.in(0), n}, store);
    } else {
      launch_sum(args.stream, cut, memory, Squares<1>{args.in(0), n}, store);
    }
  });
}

}  // namespace tessera::device::cuda
