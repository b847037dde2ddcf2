#include <algorithm>
#include <bit>

#include "device/cuda/find.h"
#include "device/cuda/kernels.h"
#include "device/cuda/rows.h"
#include "device/cuda/scratch.h"
#include "device/table_part.h"

// The gradient's contributions come in the order of the ids: positions are sorted by their row of the table (a stable
// radix sort of integers in the working memory), then each row's are added one after the other. Rows with many of them,
// such as a frequent word's, are added in pieces of kPiece and the pieces in order, so that no warp has a long way
// alone. How a row is added follows from its own positions alone, wherever the table is cut.

namespace tessera::device::cuda {
namespace {

constexpr int kThreads = 256;

/// Neighbouring threads write neighbouring columns. Index is 32 bits wide where all elements can be counted so.
template <typename Index, int kWidth>
__global__ void __launch_bounds__(kThreads) embedding(const float* table, const std::int32_t* ids, float* y,
                                                      std::int64_t count, TablePart part, std::uint64_t* wrong) {
  const auto chunks = part.cols / kWidth;
  const auto stride = threads_of_grid();
  for (auto at = thread_of_grid(); at < count * chunks; at += stride) {
    const auto [k, chunk] = cell_of<Index>(at, chunks);
    const auto c = chunk * kWidth;
    const auto id = ids[k];
    const auto row = id - part.start;
    float v[kWidth] = {};
    if (row >= 0 && row < part.rows) {
      read_neighbours<kWidth>(table + row * part.cols + c, v);
    } else if (c == 0 && (id < 0 || id >= part.global)) {
      report(wrong, k, id);
    }
    write_neighbours<kWidth>(y + k * part.cols + c, v);
  }
}

/// What a position is sorted by: its row of the own part, or their number.
struct Keys {
  const std::int32_t* ids;
  std::int32_t count;
  std::int64_t start, rows;

  __device__ std::uint32_t operator()(std::int32_t position) const {
    const auto row = ids[position] - start;
    return static_cast<std::uint32_t>(row >= 0 && row < rows ? row : rows);
  }
};

/// One digit of the sort: positions from `from`, or in the order of the ids where it is null.
struct Pass {
  Keys keys;
  const std::int32_t* from;
  int shift;

  __device__ std::int32_t position(std::int32_t i) const { return from == nullptr ? i : from[i]; }
  __device__ int digit(std::int32_t position) const { return static_cast<int>(keys(position) >> shift) % kSortBins; }
};

constexpr int kSortThreads = kSortBins, kSortWarps = kSortThreads / 32, kRounds = kSortTile / kSortThreads;

/// f(the thread's position, there) in the warp's rounds: a warp goes through its part of the block's tile in order.
template <class F>
__device__ void each_round(const Pass& pass, const F& f) {
  const auto lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto first = static_cast<std::int32_t>(blockIdx.x) * kSortTile + warp * (32 * kRounds);
  for (int round = 0; round < kRounds; ++round) {
    const auto i = first + round * 32 + lane;
    const bool there = i < pass.keys.count;
    f(there ? pass.position(i) : 0, there);
  }
}

/// counts (bins, blocks): how often each digit is in each block's tile.
__global__ void __launch_bounds__(kSortThreads) count_digits(Pass pass, std::int32_t* counts) {
  __shared__ int bins[kSortBins];
  bins[threadIdx.x] = 0;
  __syncthreads();
  each_round(pass, [&](std::int32_t position, bool there) {
    if (there) atomicAdd(&bins[pass.digit(position)], 1);
  });
  __syncthreads();
  counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

constexpr int kScanThreads = 1024;

/// Sum of the values of the threads before this one. To be called by all threads of the only block.
__device__ std::int32_t sum_before(std::int32_t value) {
  __shared__ std::int32_t of_warps[kScanThreads / 32];
  const auto lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto inclusive = [lane](std::int32_t v) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const auto before = __shfl_up_sync(0xFFFFFFFFU, v, static_cast<unsigned>(distance));
      if (lane >= distance) v += before;
    }
    return v;
  };
  const auto sum = inclusive(value);
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  const auto warps = inclusive(of_warps[lane]);
  const auto before = __shfl_sync(0xFFFFFFFFU, warps, warp == 0 ? 0 : warp - 1);
  return sum - value + (warp == 0 ? 0 : before);
}

/// Each number becomes the sum of those before it.
__global__ void __launch_bounds__(kScanThreads) scan(std::int32_t* counts, std::int32_t size) {
  const auto run = (size + kScanThreads - 1) / kScanThreads;
  const auto first = static_cast<std::int32_t>(threadIdx.x) * run, last = min(first + run, size);
  std::int32_t sum = 0;
  for (auto i = first; i < last; ++i) sum += counts[i];
  sum = sum_before(sum);
  for (auto i = first; i < last; ++i) {
    const auto count = counts[i];
    counts[i] = sum;
    sum += count;
  }
}

/// The lanes with the same digit, of those that are there.
__device__ unsigned peers_of(int digit, bool there) {
  auto peers = __ballot_sync(0xFFFFFFFFU, there ? 1 : 0);
#pragma unroll
  for (int bit = 1; bit < kSortBins; bit *= 2) {
    const auto set = __ballot_sync(0xFFFFFFFFU, (digit & bit) != 0 ? 1 : 0);
    peers &= (digit & bit) != 0 ? set : ~set;
  }
  return peers;
}

/// offsets (bins, blocks): where each block's first position with each digit belongs.
__global__ void __launch_bounds__(kSortThreads) place(Pass pass, const std::int32_t* offsets, std::int32_t* to) {
  __shared__ std::int32_t next[kSortWarps][kSortBins];  // where a warp's next position with the digit belongs
  const auto lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (auto& of_warp : next) of_warp[threadIdx.x] = 0;
  __syncthreads();
  each_round(pass, [&](std::int32_t position, bool there) {
    if (there) atomicAdd(&next[warp][pass.digit(position)], 1);
  });
  __syncthreads();
  auto offset = offsets[threadIdx.x * gridDim.x + blockIdx.x];
  for (auto& of_warp : next) {
    const auto count = of_warp[threadIdx.x];
    of_warp[threadIdx.x] = offset;
    offset += count;
  }
  __syncthreads();
  each_round(pass, [&](std::int32_t position, bool there) {
    const int digit = there ? pass.digit(position) : 0;
    const auto peers = peers_of(digit, there);
    const int rank = __popc(peers & ((1U << lane) - 1));
    if (there) to[next[warp][digit] + rank] = position;
    __syncwarp();
    if (there && rank == 0) next[warp][digit] += __popc(peers);
    __syncwarp();
  });
}

/// Where each row's positions lie in their order; `first` is below 0 where there are none, if the table is overwritten.
struct Segments {
  const std::int32_t* order;
  std::int32_t *first, *last;
};

__global__ void __launch_bounds__(kThreads) find_segments(Keys keys, Segments segments) {
  const auto stride = threads_of_grid();
  for (auto at = thread_of_grid(); at < keys.count; at += stride) {
    const auto i = static_cast<std::int32_t>(at);
    const auto row = keys(segments.order[i]);
    if (row == keys.rows) continue;
    if (i == 0 || keys(segments.order[i - 1]) != row) segments.first[row] = i;
    if (i + 1 == keys.count || keys(segments.order[i + 1]) != row) segments.last[row] = i + 1;
  }
}

/// A team of neighbouring threads for each kWidth x lanes columns of each place in the order: where a piece begins it
/// adds the piece, a segment's first one to the table (after what is there, if `add`), the others to `pieces`, of which
/// each has a row: two that are not the first begin kPiece places apart or more. Behind the places come the table's
/// rows, unless `add`: those without a segment become 0, so that every row is written once.
template <int kWidth>
__global__ void __launch_bounds__(kThreads) add_pieces(Keys keys, Segments segments, const float* dy, float* dtable,
                                                       float* pieces, std::int64_t cols, int lanes, bool add) {
  const auto column_teams = (cols + lanes * kWidth - 1) / (lanes * kWidth);
  const auto stride = threads_of_grid() / lanes;
  const auto places = keys.count + (add ? 0 : keys.rows);
  auto item = thread_of_grid() / lanes;
  for (; item < places * column_teams; item += stride) {
    const auto [at, team] = cell_of<std::int64_t>(item, column_teams);
    const auto c = (team * lanes + threadIdx.x % static_cast<unsigned>(lanes)) * kWidth;
    if (c >= cols) continue;
    if (at >= keys.count) {
      const float zeros[kWidth] = {};
      const auto empty = at - keys.count;
      if (segments.first[empty] < 0) write_neighbours<kWidth>(dtable + empty * cols + c, zeros);
      continue;
    }
    const auto i = static_cast<std::int32_t>(at);
    const auto row = keys(segments.order[i]);
    if (row == keys.rows) continue;
    const auto offset = i - segments.first[row];
    if (offset % kPiece != 0) continue;
    auto* to = offset == 0 ? dtable + row * cols + c : pieces + piece_at(i, cols) + c;
    float sum[kWidth] = {};
    if (offset == 0 && add) read_neighbours<kWidth>(to, sum);
    const auto end = min(i + kPiece, segments.last[row]);
#pragma unroll 4
    for (auto k = i; k < end; ++k) {
      float v[kWidth];
      read_neighbours<kWidth>(dy + segments.order[k] * cols + c, v);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum[j] += v[j];
    }
    write_neighbours<kWidth>(to, sum);
  }
}

/// The later pieces of long segments, in order: a warp for each.
__global__ void __launch_bounds__(kThreads)
    join_pieces(Keys keys, Segments segments, float* dtable, const float* pieces, std::int64_t cols) {
  const auto stride = threads_of_grid() / 32;
  auto item = thread_of_grid() / 32;
  for (; item < keys.count; item += stride) {
    const auto i = static_cast<std::int32_t>(item);
    const auto row = keys(segments.order[i]);
    if (row == keys.rows || i - segments.first[row] != kPiece) continue;
    for (std::int64_t c = threadIdx.x % 32; c < cols; c += 32) {
      auto sum = dtable[row * cols + c];
      for (auto k = i; k < segments.last[row]; k += kPiece) sum += pieces[piece_at(k, cols) + c];
      dtable[row * cols + c] = sum;
    }
  }
}

/// Whether rows of the part may be moved 16 bytes at a time.
template <class... P>
bool wide(const TablePart& part, const P*... pointers) {
  return row_width({part.rows, part.cols}, pointers...) == 4;
}

}  // namespace

std::unique_ptr<Kernel> make_embedding(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 2, 1);
  const auto part = table_part(spec, spec.inputs[0]);
  const auto lookups = require_lookups(spec, part, spec.inputs[1], spec.outputs[0]);
  auto* wrong = context.checks.add([part, lookups, layer = spec.label](std::int64_t index, std::int32_t id) {
    return "'" + layer + "': " + complaint(part, lookups, index, id);
  });
  return kernel_of(context, stream, [=](const Args& args) {
    const bool is_wide = wide(part, args.in(0), args.out(0));
    const auto elements = lookups.count * part.cols;
    const bool narrow = fits_32_bits(elements);
    const auto kernel = narrow    ? is_wide ? embedding<std::uint32_t, 4> : embedding<std::uint32_t, 1>
                           : is_wide ? embedding<std::int64_t, 4>
                                  : embedding<std::int64_t, 1>;
    launch(args.stream, {blocks_for(elements / (is_wide ? 4 : 1), kThreads), kThreads}, kernel, args.in(0),
           args.in<std::int32_t>(1), args.out(0), lookups.count, part, wrong);
  });
}

std::unique_ptr<Kernel> make_embedding_backward(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 2, 1);
  const auto part = table_part(spec, spec.outputs[0]);
  const auto ids = require_lookups(spec, part, spec.inputs[0], spec.inputs[1]).count;
  require(spec, ids <= kMostSorted && part.rows < INT32_MAX, "ids and rows are counted in 32 bits");
  const EmbeddingScratch memory(ids, part);
  auto* scratch = context.scratch.take<std::byte>(memory.bytes);
  const bool accumulate = flag(spec.attributes, "accumulate");
  const int passes = (std::bit_width(static_cast<std::uint64_t>(part.rows)) + 7) / 8;
  return kernel_of(context, stream, [=](const Args& args) {
    const bool add = accumulate && args.micro_batch > 0;
    auto* dtable = args.out(0);
    const auto bytes = static_cast<std::size_t>(part.rows * part.cols) * sizeof(float);
    if (bytes == 0) return;
    if (ids == 0) {
      if (!add) check(cudaMemsetAsync(dtable, 0, bytes, args.stream), "cudaMemsetAsync");
      return;
    }
    const auto integers = [&](std::int64_t at) { return reinterpret_cast<std::int32_t*>(scratch + at); };
    const auto count = static_cast<std::int32_t>(ids);
    const Keys keys{args.in<std::int32_t>(0), count, part.start, part.rows};
    const LaunchShape tiles{memory.tiles, kSortThreads};
    auto* counts = integers(memory.counts);
    std::int32_t *from = nullptr, *to = integers(memory.order[0]);
    for (int p = 0; p < passes; ++p) {
      const Pass pass{keys, from, 8 * p};
      launch(args.stream, tiles, count_digits, pass, counts);
      launch(args.stream, {1, kScanThreads}, scan, counts, static_cast<std::int32_t>(memory.tiles * kSortBins));
      launch(args.stream, tiles, place, pass, counts, to);
      from = to;
      to = integers(memory.order[(p + 1) % 2]);
    }
    const Segments segments{from, integers(memory.first), integers(memory.last)};
    if (!add)
      check(cudaMemsetAsync(segments.first, 0xFF, static_cast<std::size_t>(part.rows) * sizeof(std::int32_t),
                            args.stream),
            "cudaMemsetAsync");
    launch(args.stream, {blocks_for(ids, kThreads), kThreads}, find_segments, keys, segments);
    auto* pieces = reinterpret_cast<float*>(scratch + memory.pieces);
    const bool is_wide = wide(part, args.in(1), dtable, pieces);
    const auto chunks = part.cols / (is_wide ? 4 : 1);
    const int lanes = static_cast<int>(std::min<std::int64_t>(32, std::bit_ceil(static_cast<std::uint64_t>(chunks))));
    const auto threads = (ids + (add ? 0 : part.rows)) * ((chunks + lanes - 1) / lanes) * lanes;
    launch(args.stream, {blocks_for(threads, kThreads), kThreads}, is_wide ? add_pieces<4> : add_pieces<1>, keys,
           segments, args.in(1), dtable, pieces, part.cols, lanes, add);
    if (ids > kPiece)
      launch(args.stream, {blocks_for(ids * 32, kThreads), kThreads}, join_pieces, keys, segments, dtable, pieces,
             part.cols);
  });
}

}  // namespace tessera::device::cuda
