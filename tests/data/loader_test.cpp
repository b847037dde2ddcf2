#include "data/loader.h"

#include <algorithm>
#include <fcntl.h>
#include <numeric>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/npy_writer.h"
#include "data/shuffle.h"
#include "expect_error.h"
#include "mesh/distribution.h"

namespace tessera::data {
namespace {

using Rows = std::vector<float>;

config::DataSpec npy(const std::string& path) {
  config::DataSpec spec;
  spec.npy = {{"x", path}};
  return spec;
}

// Samples of (4, 6) whose elements tell their place: 100 sample + 6 row + column.
Dataset numbered(std::int64_t samples) {
  std::vector<std::int16_t> values;
  for (std::int64_t s = 0; s < samples; ++s)
    for (std::int64_t i = 0; i < 24; ++i) values.push_back(static_cast<std::int16_t>(100 * s + i));
  return {npy(write_npy("numbered.npy", "<i2", {samples, 4, 6}, values)), {{"x", {4, 6}, DType::kF32}}, 0};
}

LoaderOptions options(std::int64_t batch_size, std::int64_t batch_rows, std::int64_t micro_batches = 1) {
  LoaderOptions o;
  o.schedule.batch_size = batch_size;
  o.batch_rows = batch_rows;
  o.micro_batches = micro_batches;
  return o;
}

// The rank's part by the definition: pad, cut into micro-batches, take the box of each.
Rows expected(std::int64_t samples, const BatchRange& batch, const LoaderOptions& o, const mesh::DeviceMesh& mesh,
              const mesh::Layout& layout, std::int64_t rank) {
  Rows out;
  const auto micro_rows = o.batch_rows / o.micro_batches;
  const auto box = mesh::owned(layout, mesh, mesh.coordinates(rank), {micro_rows, 4, 6})[0];
  for (std::int64_t m = 0; m < o.micro_batches; ++m)
    for (auto i = box.start[0]; i < box.start[0] + box.size[0]; ++i)
      for (auto r = box.start[1]; r < box.start[1] + box.size[1]; ++r)
        for (auto c = box.start[2]; c < box.start[2] + box.size[2]; ++c) {
          const auto position = batch.first + std::min(m * micro_rows + i, batch.rows - 1);
          const auto sample = o.shuffle ? shuffled(samples, o.seed, batch.pass)(position) : position;
          out.push_back(static_cast<float>(100 * sample + 6 * r + c));
        }
  return out;
}

Rows load(Loader& loader, std::int64_t epoch, std::int64_t step, BatchRange* range = nullptr) {
  Rows out(static_cast<std::size_t>(loader.bytes(0)) / sizeof(float));
  void* to = out.data();
  const auto batch = loader.load(epoch, step, {&to, 1});
  if (range != nullptr) *range = batch;
  return out;
}

void expect_all_batches(const LoaderOptions& o, const mesh::DeviceMesh& mesh, const mesh::Layout& layout) {
  constexpr std::int64_t kSamples = 29;
  static const Dataset kDataset = numbered(kSamples);
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    Loader loader(kDataset, mesh, rank, {{"x", {o.batch_rows, 4, 6}, layout}}, o);
    for (std::int64_t epoch = 0; epoch < 2; ++epoch)
      for (std::int64_t step = 0; step < loader.schedule().steps(epoch); ++step) {
        BatchRange range;
        const auto rows = load(loader, epoch, step, &range);
        ASSERT_EQ(range, loader.schedule().batch(epoch, step));
        ASSERT_EQ(rows, expected(kSamples, range, o, mesh, layout, rank))
            << to_string(layout, mesh) << " on " << to_string(mesh) << ", rank " << rank << ", step " << step;
      }
  }
}

TEST(Loader, OneRankReadsTheWholeBatchAndPadsTheLast) { expect_all_batches(options(8, 8), {}, mesh::replicated(3)); }

TEST(Loader, TheBatchMayBePaddedBeyondItsSize) { expect_all_batches(options(7, 12, 2), {}, mesh::replicated(3)); }

// The shard comes from the mesh coordinate: every order of the axes, batch over one or two of them, features over the
// rest.
TEST(Loader, EveryAxisOrderMicroBatchAndFeatureSplit) {
  std::vector<std::string> names{"batch", "model", "other"};
  do {
    std::vector<std::int64_t> shape;
    for (const auto& name : names) shape.push_back(name == "model" ? 3 : 2);
    const mesh::DeviceMesh mesh(shape, names, 12);
    const auto batch = mesh.find("batch"), model = mesh.find("model"), other = mesh.find("other");
    const std::vector<mesh::Layout> layouts{{{{batch}, {}, {}}, {}},
                                            {{{batch, other}, {}, {}}, {}},
                                            {{{other, batch}, {}, {model}}, {}},
                                            {{{batch}, {other}, {model}}, {}},
                                            {{{}, {other, batch}, {model}}, {}}};
    for (const auto& layout : layouts)
      for (const std::int64_t micro_batches : {1, 2})
        for (const bool shuffle : {false, true}) {
          auto o = options(10, 16, micro_batches);
          o.shuffle = shuffle;
          o.prefetch = micro_batches == 2;
          expect_all_batches(o, mesh, layout);
        }
  } while (std::next_permutation(names.begin(), names.end()));
}

TEST(Loader, RanksOfOneReplicaSeeEqualRowsAndReplicasDiffer) {
  const auto dataset = numbered(8);
  const mesh::DeviceMesh mesh({2, 2}, {"model", "batch"}, 4);
  std::vector<Rows> rows;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    Loader loader(dataset, mesh, rank, {{"x", {8, 4, 6}, {{{1}, {}, {}}, {}}}}, options(8, 8));
    rows.push_back(load(loader, 0, 0));
  }
  EXPECT_EQ(rows[0], rows[2]);
  EXPECT_EQ(rows[1], rows[3]);
  EXPECT_NE(rows[0], rows[1]);
}

TEST(Loader, AnEpochShowsEverySampleOnceOnEveryMesh) {
  const auto dataset = numbered(29);
  for (const std::int64_t ranks : {1, 2, 4}) {
    const mesh::DeviceMesh mesh({ranks}, {"batch"}, ranks);
    auto o = options(8, 8);
    o.shuffle = true;
    std::vector<Rows> batches(4);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      Loader loader(dataset, mesh, rank, {{"x", {8, 4, 6}, {{{0}, {}, {}}, {}}}}, o);
      for (std::int64_t step = 0; step < 4; ++step)
        for (const auto v : load(loader, 1, step)) batches[static_cast<std::size_t>(step)].push_back(v);
    }
    std::vector<std::int64_t> order;
    for (const auto& batch : batches)
      for (std::size_t row = 0; row < 8; ++row) order.push_back(static_cast<std::int64_t>(batch[row * 24]) / 100);
    order.resize(29);
    const auto permutation = shuffled(29, 0, 1);
    for (std::int64_t i = 0; i < 29; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], permutation(i)) << ranks;
    std::sort(order.begin(), order.end());
    std::vector<std::int64_t> all(29);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
  }
}

TEST(Loader, BatchesMayBeAskedForInAnyOrder) {
  const auto dataset = numbered(29);
  auto o = options(8, 8);
  o.shuffle = true;
  Loader loader(dataset, {}, 0, {{"x", {8, 4, 6}, mesh::replicated(3)}}, o);
  const auto later = load(loader, 3, 2);
  const auto first = load(loader, 0, 0);
  EXPECT_EQ(load(loader, 3, 2), later);
  EXPECT_EQ(load(loader, 0, 0), first);
  EXPECT_NE(first, later);
}

TEST(Loader, SeveralInputsGetTheSameSamples) {
  config::DataSpec spec;
  spec.npy = {{"x", write_npy<float>("x.npy", "<f4", {5}, {0, 1, 2, 3, 4})},
              {"y", write_npy<std::uint8_t>("y.npy", "|u1", {5, 1}, {0, 10, 20, 30, 40})},
              {"sample_weight", write_npy<double>("w.npy", "<f8", {5}, {0, .5, 1, 1.5, 2})}};
  const Dataset dataset(spec, {{"x", {1}, DType::kF32}, {"y", {}, DType::kI32}, {"sample_weight", {}, DType::kF32}}, 0);
  auto o = options(5, 6);
  o.shuffle = true;
  Loader loader(dataset, {}, 0,
                {{"x", {6, 1}, mesh::replicated(2)},
                 {"y", {6}, mesh::replicated(1)},
                 {"sample_weight", {6}, mesh::replicated(1)}},
                o);
  std::vector<float> x(6), weight(6);
  std::vector<std::int32_t> y(6);
  const std::vector<void*> to{x.data(), y.data(), weight.data()};
  EXPECT_EQ(loader.load(0, 0, to), (BatchRange{0, 0, 5}));
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(static_cast<float>(y[i]), 10 * x[i]);
    EXPECT_EQ(weight[i], x[i] / 2);
  }
  EXPECT_EQ(x[5], x[4]);
}

TEST(Loader, ErrorsOfTheThreadReachTheCaller) {
  const auto path = write_npy<std::int64_t>("bad.npy", "<i8", {4}, {0, 1, 1LL << 40, 3});
  const Dataset dataset(npy(path), {{"x", {}, DType::kI32}}, 0);
  Loader loader(dataset, {}, 0, {{"x", {2}, mesh::replicated(1)}}, options(2, 2));
  std::vector<std::int32_t> x(2);
  void* to = x.data();
  loader.load(0, 0, {&to, 1});
  EXPECT_EQ(x, (std::vector<std::int32_t>{0, 1}));
  EXPECT_TESSERA_ERROR(loader.load(0, 1, {&to, 1}), ExitCode::kData, "row 2 holds 1099511627776");
  loader.load(0, 0, {&to, 1});
  EXPECT_EQ(x[1], 1);
}

// A sparse file of 6 GiB: whatever read more than the own rows would not end in time.
TEST(Loader, ReadsOnlyItsOwnRowsOfALargeFile) {
  const std::int64_t samples = 3 * (std::int64_t{1} << 20), row = 2048;
  const auto header = npy_header("|u1", {samples, row});
  const auto path = write_file("large.npy", header);
  const int fd = ::open(path.c_str(), O_WRONLY);
  ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(header.size()) + samples * row), 0);
  const char mark = 9;
  ASSERT_EQ(::pwrite(fd, &mark, 1, static_cast<off_t>(header.size()) + samples * row - 1), 1);
  ::close(fd);
  const Dataset dataset(npy(path), {{"x", {row}, DType::kF32}}, 0);
  const mesh::DeviceMesh mesh({4}, {"batch"}, 4);
  auto o = options(64, 64);
  o.prefetch = false;
  Loader loader(dataset, mesh, 3, {{"x", {64, row}, {{{0}, {}}, {}}}}, o);
  EXPECT_EQ(loader.bytes(0), 16 * row * 4);
  const auto rows = load(loader, 0, loader.schedule().steps(0) - 1);
  EXPECT_EQ(rows.back(), 9);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), 0.0F), static_cast<std::ptrdiff_t>(rows.size()) - 1);
  EXPECT_EQ(loader.held_bytes(), kLoaderBytes);
  ::unlink(path.c_str());
}

TEST(Loader, DestroyingItWhileItReadsIsSafe) {
  const auto dataset = numbered(29);
  for (int i = 0; i < 50; ++i) {
    Loader loader(dataset, {}, 0, {{"x", {8, 4, 6}, mesh::replicated(3)}}, options(8, 8));
    load(loader, 0, 0);
  }
}

}  // namespace
}  // namespace tessera::data
