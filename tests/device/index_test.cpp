// The index arithmetic of the CUDA kernels, by the functions that they call, for tensors of more than 2^31 and 2^32
// elements: nothing here has memory.
#include "device/cuda/index.h"

#include <algorithm>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "core/box_runs.h"
#include "core/philox.h"
#include "device/cuda/batch_runs.h"
#include "device/cuda/chain_program.h"
#include "device/cuda/scratch.h"
#include "device/cuda/strided_copy.h"
#include "device/cuda/sum_index.h"

namespace tessera::device::cuda {
namespace {

constexpr std::int64_t k31 = std::int64_t{1} << 31, k32 = std::int64_t{1} << 32;

/// The first, the last and those around 2^31 and 2^32 of n, and some others.
std::vector<std::int64_t> places(std::int64_t n) {
  std::vector<std::int64_t> list;
  for (const auto around : {std::int64_t{0}, k31, k32, 2 * k32, n / 2, n - 1})
    for (std::int64_t d = -2; d <= 2; ++d)
      if (around + d >= 0 && around + d < n) list.push_back(around + d);
  for (std::uint64_t k = 0; k < 200; ++k)
    list.push_back(static_cast<std::int64_t>((philox_bits(1, k, 0) * (std::uint64_t{1} << 32) + philox_bits(1, k, 1)) %
                                             static_cast<std::uint64_t>(n)));
  return list;
}

TEST(Index, ThreadsAreCountedIn64Bits) {
  EXPECT_EQ(thread_of_grid(INT32_MAX, 1024, 1023), k31 * 1024 - 1);
  EXPECT_EQ(threads_of_grid(INT32_MAX, 1024), (k31 - 1) * 1024);
}

template <typename Index>
void expect_cells(std::int64_t rows, std::int64_t cols) {
  for (const auto i : places(rows * cols)) {
    const auto cell = cell_of<Index>(i, cols);
    EXPECT_EQ(cell.row * cols + cell.column, i);
    EXPECT_TRUE(cell.column >= 0 && cell.column < cols) << i;
  }
}

TEST(Index, CellsOfLargeMatrices) {
  expect_cells<std::int64_t>(k32 + 1, 3);
  expect_cells<std::int64_t>(3, k32 + 1);
  expect_cells<std::int64_t>(1 << 20, (1 << 13) + 1);
  expect_cells<std::uint32_t>(1, INT32_MAX);
  expect_cells<std::uint32_t>(INT32_MAX, 1);
  expect_cells<std::uint32_t>(46340, 46340);
  EXPECT_TRUE(fits_32_bits(INT32_MAX));
  EXPECT_FALSE(fits_32_bits(k31));
  EXPECT_FALSE(fits_32_bits(k32 + 1));
}

TEST(Index, ElementsOfAChainsInputs) {
  using Spread = ElementwiseChain::Spread;
  const std::int64_t cols = (1 << 13) + 1, rows = 1 << 20, last = rows * cols - 1;
  EXPECT_EQ(element_of<std::int64_t>({Spread::kFull, 0, rows * cols}, last), last);
  EXPECT_EQ(element_of<std::int64_t>({Spread::kScalar, 0, 1}, last), 0);
  EXPECT_EQ(element_of<std::int64_t>({Spread::kRows, 0, cols}, last), cols - 1);
  EXPECT_EQ(element_of<std::int64_t>({Spread::kRows, 0, cols}, last - cols), cols - 1);
  EXPECT_EQ(element_of<std::int64_t>({Spread::kColumns, 0, cols}, last), rows - 1);
  EXPECT_EQ(element_of<std::int64_t>({Spread::kColumns, 0, cols}, last - cols), rows - 2);
  EXPECT_EQ(element_of<std::int64_t>({Spread::kColumns, 0, 3}, 3 * k32 + 2), k32);
  EXPECT_EQ(element_of<std::int64_t>({Spread::kRows, 0, k32 + 9}, 2 * k32 + 8), k32 - 1);
}

/// Each looked-at unit of the walk is where the indices of its first element say.
template <typename Index>
void expect_walk(const std::vector<CopyDim>& dims, std::int64_t x_start, std::int64_t y_start, std::int64_t size) {
  const auto copy = plan_copy(dims, x_start, y_start, size);
  const auto elements_of_unit = copy.unit / size;
  for (const auto at : places(copy.count)) {
    auto rest = at * elements_of_unit, from = x_start, to = y_start;
    bool inside = true;
    for (auto d = dims.size(); d-- > 0; rest /= dims[d].size) {
      const auto i = rest % dims[d].size;
      from += i * dims[d].x_stride;
      to += i * dims[d].y_stride;
      inside &= i >= dims[d].low && i < dims[d].high;
    }
    const auto units = units_of<Index, true>(copy, at);
    ASSERT_EQ(units.to * elements_of_unit, to) << at;
    ASSERT_EQ(units.inside, inside) << at;
    if (inside) {
      ASSERT_EQ(units.from * elements_of_unit, from) << at;
    }
  }
}

TEST(Index, CopiesOfLargeBoxes) {
  // Transposed: (rows, cols, run) to (cols, rows, run).
  const std::int64_t rows = 70000, cols = 70001, run = 3;
  expect_walk<std::int64_t>({{cols, run, rows * run}, {rows, cols * run, run}, {run, 1, 1}}, 0, 0, 4);
  expect_walk<std::int64_t>({{cols, run * 4, rows * run * 4}, {rows, cols * run * 4, run * 4}, {run * 4, 1, 1}}, 0, 0,
                            4);
  // Into a larger box: x begins far before y's first element, and far behind it.
  expect_walk<std::int64_t>({{k31, 5, 8, 10, k31 - 7}, {8, 1, 1, 1, 6}}, -51, 0, 4);
  expect_walk<std::int64_t>({{3, k32, 7}, {7, 1, 1}}, 5 * k32 + 1, k32, 1);
  // All that 32 bits count.
  expect_walk<std::uint32_t>({{46340, 1, 46340}, {46340, 46340, 1}}, 0, 0, 1);
  expect_walk<std::uint32_t>({{3, 1, 715827882}, {715827882, 3, 1}}, 0, 0, 1);
  expect_walk<std::uint32_t>({{1073741823, 2, 1}, {2, 1, 1073741823}}, 0, 0, 1);
  expect_walk<std::uint32_t>({{2, k32, 1}, {INT32_MAX / 2, k32 + 2, k32 + 1}}, k32, k32, 1);
  expect_walk<std::uint32_t>({{INT32_MAX, 2, 2}}, 0, 0, 1);
}

TEST(Index, DivisorsOf32Bits) {
  for (const std::int64_t size : {1, 2, 3, 5, 7, 127, 641, 65535, 65536, 65537, 715827883, 1073741823, 1073741824})
    expect_walk<std::uint32_t>({{INT32_MAX / size, 1, 2 * size}, {size, 3, 2}}, 0, 0, 1);
}

/// The parts of a sum follow each other from 0 to n.
void expect_parts(const SumCut& cut, std::int64_t n) {
  std::int64_t end = 0;
  for (std::int64_t part = 0; part < cut.parts; ++part) {
    const auto range = part_of(part, cut.length, n);
    EXPECT_EQ(range.begin, end);
    EXPECT_GT(range.end, range.begin);
    end = range.end;
  }
  EXPECT_EQ(end, n);
}

TEST(Index, PartsOfLongSums) {
  for (const auto n : {k31 - 1, k31, k31 + 1, k32 - 1, k32, k32 + 3, 5 * k32 + 1, std::int64_t{1} << 42})
    for (const std::int64_t sums : {1, 3, 1000, 5000}) {
      SCOPED_TRACE(n);
      expect_parts(cut_sum(n, sums), n);
      EXPECT_EQ(cut_sum(n, sums).length % 4, 0);
    }
}

KernelSpec sum_spec(const Shape& shape, std::vector<std::int64_t> dims, const Shape& result) {
  return {"reduce_sum", {{shape, DType::kF32}}, {{result, DType::kF32}}, {{"dims", std::move(dims)}}};
}

/// Offset in a tensor of this shape of the element with this number among the kept, and this among the summed ones.
std::int64_t offset_in(const Shape& shape, const std::vector<std::int64_t>& dims, std::int64_t kept,
                       std::int64_t summed) {
  std::int64_t offset = 0, stride = 1;
  for (auto d = std::ssize(shape); d-- > 0; stride *= shape[static_cast<std::size_t>(d)]) {
    auto& rest = std::find(dims.begin(), dims.end(), d) != dims.end() ? summed : kept;
    offset += rest % shape[static_cast<std::size_t>(d)] * stride;
    rest /= shape[static_cast<std::size_t>(d)];
  }
  return offset;
}

void expect_row_sums(const Shape& shape, const std::vector<std::int64_t>& dims, const Shape& result) {
  const auto spec = sum_spec(shape, dims, result);
  const auto r = parse_reduction(spec);
  ASSERT_TRUE(r.inner_summed);
  const auto results = r.kept.count(), rows = r.summed.count();
  const RowSums sums{Offsets(spec, r.kept),           Offsets(spec, r.summed), results, rows, r.inner,
                     cut_sum(rows * r.inner, results)};
  for (const auto number : places(results * sums.cut.parts)) {
    const auto task = sums.task(number);
    ASSERT_EQ(task.result, number / sums.cut.parts);
    const auto range = part_of(number % sums.cut.parts, sums.cut.length, rows * r.inner);
    ASSERT_EQ(task.terms.begin, range.begin);
    ASSERT_EQ(task.terms.end, range.end);
    for (const auto term : {range.begin, range.end - 1})
      ASSERT_EQ(sums.kept(task.result) + (rows > 1 ? sums.offset(term) : term),
                offset_in(shape, dims, task.result, term))
          << number << " " << term;
  }
}

TEST(Index, SumsOverTheLastDimension) {
  expect_row_sums({5 * k32 + 3}, {0}, {});
  expect_row_sums({3, k32 + 1}, {1}, {3});
  expect_row_sums({INT32_MAX, 5}, {1}, {INT32_MAX});
  expect_row_sums({1 << 10, 1 << 13, 1 << 20}, {0, 2}, {1 << 13});
  expect_row_sums({7, 1 << 11, 5, 1 << 18}, {0, 2, 3}, {1 << 11});
}

/// Every row of every result and column is in exactly one task.
void expect_column_sums(const Shape& shape, const std::vector<std::int64_t>& dims, const Shape& result, int columns) {
  const auto spec = sum_spec(shape, dims, result);
  const auto r = parse_reduction(spec);
  ASSERT_FALSE(r.inner_summed);
  const auto results = r.kept.count(), rows = r.summed.count();
  const ColumnSums sums{Offsets(spec, r.kept), Offsets(spec, r.summed), results, rows, r.inner, cut_rows(r)};
  expect_parts(sums.cut, rows);
  const auto tiles = sums.tiles(columns);
  ASSERT_LE(results * sums.cut.parts * r.inner, UINT32_MAX);
  for (const auto number : places(results * sums.cut.parts * tiles)) {
    const auto task = sums.task(number, columns);
    ASSERT_EQ(task.part, number / tiles);
    ASSERT_EQ(task.result, number / tiles / sums.cut.parts);
    ASSERT_EQ(task.column, number % tiles * columns);
    const auto range = part_of(number / tiles % sums.cut.parts, sums.cut.length, rows);
    ASSERT_EQ(task.rows.begin, range.begin);
    ASSERT_EQ(task.rows.end, range.end);
    for (const auto row : {range.begin, range.end - 1})
      ASSERT_EQ(sums.kept(task.result) + sums.summed(static_cast<std::uint32_t>(row)) + task.column,
                offset_in(shape, dims, task.result * r.inner + task.column, row));
  }
}

TEST(Index, SumsOfColumns) {
  expect_column_sums({1 << 20, (1 << 13) + 4}, {0}, {(1 << 13) + 4}, 128);
  expect_column_sums({INT32_MAX, 7}, {0}, {7}, 8);
  expect_column_sums({3, k32 - 5}, {0}, {k32 - 5}, 32);
  expect_column_sums({1 << 11, 1 << 11, 1 << 11}, {1}, {1 << 11, 1 << 11}, 128);
  expect_column_sums({5, 1 << 12, 9, 1 << 17}, {0, 2}, {1 << 12, 1 << 17}, 128);
}

TEST(Index, AReductionBeyondItsCountersIsRefused) {
  const auto spec = sum_spec({k31, 2}, {1}, {k31});
  EXPECT_THROW(Offsets(spec, parse_reduction(spec).kept), Error);
}

/// Philox's quads of a part of a batch.
void expect_runs(const Shape& local, const Shape& global, const Shape& start, std::int64_t micro_batch) {
  const BatchRuns runs({"dropout", {{local, DType::kF32, global, start}}, {{local, DType::kF32}}, {}});
  const auto all = elements(global);
  for (const auto i : places(runs.quads())) {
    const auto [number, from, at] = runs.quad(i, micro_batch);
    // The local element in the quad's first place that is there.
    const auto first = std::max<std::int64_t>(from, 0);
    if (first >= runs.length) continue;
    const auto element = at - from + first;
    ASSERT_TRUE(element >= 0 && element < elements(local));
    const auto batch = micro_batch * all + [&] {
      std::int64_t offset = 0, stride = 1, rest = element;
      for (auto d = local.size(); d-- > 0; stride *= global[d], rest /= local[d])
        offset += (start[d] + rest % local[d]) * stride;
      return offset;
    }();
    ASSERT_EQ(number * 4 + (first - from), batch) << i;
  }
}

TEST(Index, RunsOfALargeBatch) {
  expect_runs({k32 + 5, 3}, {2 * k32 + 10, 3}, {k32 + 5, 0}, 3);
  expect_runs({1 << 16, (1 << 17) - 1}, {1 << 17, 1 << 18}, {1 << 16, 3}, 5);
  expect_runs({1 << 11, 1 << 11, 1 << 11}, {1 << 12, 1 << 11, 1 << 12}, {5, 0, 1 << 11}, 1);
}

TEST(Index, AFindKeepsItsOrderWhateverTheIndex) {
  const auto nothing = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t before = 0;
  for (const auto index : {std::int64_t{0}, std::int64_t{1}, k31 - 1, k31, k32 - 3, k32 - 2}) {
    for (const std::int32_t value : {0, 7, INT32_MAX, INT32_MIN, -1}) {
      const auto find = find_of(index, value);
      EXPECT_EQ(index_of_find(find), index);
      EXPECT_EQ(value_of_find(find), value);
      EXPECT_LT(find, nothing);
    }
    EXPECT_TRUE(index == 0 || find_of(index, 0) > before);
    before = find_of(index, -1);
  }
  for (const auto index : {k32 - 1, k32, 9 * k32 + 1}) {
    EXPECT_EQ(index_of_find(find_of(index, -1)), k32 - 2);
    EXPECT_LT(find_of(index, -1), nothing);
  }
}

TEST(Index, WorkingMemoryOfAnEmbedding) {
  const TablePart part{.start = 0, .rows = INT32_MAX - 1, .global = INT32_MAX - 1, .cols = 4096};
  const EmbeddingScratch memory(kMostSorted, part);
  EXPECT_EQ(memory.tiles * kSortTile, kMostSorted);
  EXPECT_LE(memory.tiles * kSortBins, INT32_MAX);
  const std::vector<std::int64_t> begins{memory.order[0], memory.order[1], memory.counts, memory.first,
                                         memory.last,     memory.pieces,   memory.bytes};
  const std::vector<std::int64_t> sizes{kMostSorted, kMostSorted, memory.tiles * kSortBins,
                                        part.rows,   part.rows,   (kMostSorted / kPiece + 1) * part.cols};
  for (std::size_t k = 0; k < sizes.size(); ++k) EXPECT_GE(begins[k + 1] - begins[k], 4 * sizes[k]) << k;
  EXPECT_EQ(piece_at(kMostSorted - 1, part.cols), (kMostSorted / kPiece - 1) * part.cols);
  EXPECT_LE(4 * (piece_at(kMostSorted - 1, part.cols) + part.cols), memory.bytes - memory.pieces);
}

TEST(Index, WorkingMemoryOfLargeTensors) {
  EXPECT_EQ(blas_workspace_bytes({.m = 1 << 20, .n = 1 << 20, .k = 1 << 10}), 32 << 20);
  EXPECT_EQ(layer_norm_blocks({.rows = 5 * k32, .cols = 4}), 1056);
  EXPECT_EQ(scratch_bytes(sum_spec({1 << 20, 1 << 13}, {0}, {1 << 13})) % (4 << 13), 0);
  EXPECT_EQ(scratch_bytes(sum_spec({5 * k32}, {0}, {})), cut_sum(5 * k32).parts * 8);
}

TEST(Index, RunsOfALargeBox) {
  const Shape shape{3, 1 << 17, 1 << 17};
  const Box box{{1, 5, 1 << 16}, {2, 1 << 16, 1 << 10}};
  const BoxRuns runs(shape, box);
  EXPECT_EQ(runs.count(), 2 << 16);
  EXPECT_EQ(runs.length(), 1 << 10);
  EXPECT_EQ(runs.start(0), ((std::int64_t{1} << 17) + 5) * (1 << 17) + (1 << 16));
  EXPECT_EQ(runs.start(runs.count() - 1), ((std::int64_t{2} << 17) + 5 + (1 << 16) - 1) * (1 << 17) + (1 << 16));
}

TEST(Index, RealRowsOfALargeBatch) {
  const TensorSpec part{{k31, 2}, DType::kF32, {3 * k31, 2}, {k31, 0}};
  const KernelSpec spec{"count_valid", {part}, {}, {}};
  const RowMask mask(spec, part);
  EXPECT_EQ(mask.real({.micro_batch = 1, .real_rows = 5 * k31 - 7}), k31 - 7);
  EXPECT_EQ(mask.real({.micro_batch = 1, .real_rows = 4 * k31}), 0);
}

}  // namespace
}  // namespace tessera::device::cuda
