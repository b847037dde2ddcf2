#include "comm/collectives.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "core/error.h"

namespace tessera::comm {
namespace {

enum class Place { kRegion, kRegionInPlace, kHeap, kHeapInPlace, kSome };

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kInstrumented = true;
#else
constexpr bool kInstrumented = false;
#endif

constexpr std::int64_t kRegionBytes = 32 << 20;

std::vector<std::int64_t> all_ranks(const World& world) { return axis_group(world, world.size(), 1); }

std::vector<std::vector<std::int64_t>> groups_of(const World& world) {
  std::vector<std::vector<std::int64_t>> groups{all_ranks(world), axis_group(world, world.size(), 1, true)};
  for (int stride = 1; stride < world.size(); stride *= 2) {
    for (int size = 2; size * stride <= world.size() && size < world.size(); size *= 2) {
      if (world.size() % (size * stride) == 0) groups.push_back(axis_group(world, size, stride));
    }
  }
  if (world.size() == 8) {  // the first and the last axis of a 2 x 2 x 2 mesh, and pairs from both ends
    const auto r = world.rank();
    const std::int64_t row = r / 2 % 2 * 2;
    groups.push_back({row, row + 1, row + 4, row + 5});
    groups.push_back({std::min(r, 7 - r), std::max(r, 7 - r)});
  }
  if (world.size() > 2) {  // groups of different sizes
    std::vector<std::int64_t> rest;
    for (int r = 1; r < world.size(); ++r) rest.push_back(r);
    groups.push_back(world.rank() == 0 ? std::vector<std::int64_t>{0} : rest);
  }
  return groups;
}

/// A value that tells rank, piece and index apart and whose sums are exact in every dtype.
template <typename T>
T value(std::int64_t rank, std::size_t piece, std::int64_t index) {
  const auto bits =
      (static_cast<std::uint64_t>(rank) * 7919 + piece * 104729 + static_cast<std::uint64_t>(index)) * 2654435761U;
  const auto number = static_cast<int>(bits >> 12 & 0xFFF) - 2048;
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(number) / 8;
  return static_cast<T>(number);
}

template <typename T>
class Buffers {
 public:
  /// `counts`: elements of `in` of each piece; `out_factor` / `in_factor`: chunks.
  Buffers(std::byte* region, Place place, const std::vector<std::int64_t>& counts, int in_chunks, int out_chunks,
          std::int64_t rank, bool may_alias) {
    const bool in_place = may_alias && (place == Place::kRegionInPlace || place == Place::kHeapInPlace);
    std::int64_t offset = 256;
    const auto allocate = [&](std::int64_t elements, bool in_region) -> T* {
      const auto bytes = elements * static_cast<std::int64_t>(sizeof(T));
      if (in_region) {
        auto* data = reinterpret_cast<T*>(region + offset);
        offset += (bytes + 255) / 256 * 256;
        return data;
      }
      heap_.push_back(std::make_unique<T[]>(static_cast<std::size_t>(elements) + 1));
      return heap_.back().get() + (sizeof(T) < 8 ? 1 : 0);  // not aligned to more than its size
    };
    for (std::size_t p = 0; p < counts.size(); ++p) {
      const bool in_region = place == Place::kRegion || place == Place::kRegionInPlace ||
                             (place == Place::kSome && (p + static_cast<std::size_t>(rank)) % 2 == 0);
      T* in = allocate(counts[p] * in_chunks, in_region);
      T* out = in_place ? in : allocate(counts[p] * out_chunks, in_region);
      if (!in_place) std::fill_n(out, counts[p] * out_chunks, static_cast<T>(77));
      for (std::int64_t i = 0; i < counts[p] * in_chunks; ++i) in[i] = value<T>(rank, p, i);
      pieces.push_back({in, out, counts[p] * in_chunks});
    }
  }
  std::vector<Piece> pieces;

 private:
  std::vector<std::unique_ptr<T[]>> heap_;
};

template <typename T>
void expect_out(const Piece& piece, std::int64_t count, const auto& expected, const std::string& where) {
  const auto* out = static_cast<const T*>(piece.out);
  for (std::int64_t i = 0; i < count; ++i) {
    if (out[i] != expected(i)) {
      ADD_FAILURE() << where << ": element " << i << " of " << count << " is " << +out[i] << ", not " << +expected(i);
      return;
    }
  }
}

template <typename T>
void check_group(Communicator& comm, const std::vector<std::int64_t>& ranks, std::byte* region, DType dtype,
                 const std::vector<std::int64_t>& counts, Place place) {
  const int n = comm.size();
  const auto me = ranks[static_cast<std::size_t>(comm.rank())];
  const auto where = [&](const char* what) {
    return fmt::format("{} {} rank {} of {} place {} counts {}", what, to_string(dtype), comm.rank(), n,
                       static_cast<int>(place), counts.empty() ? 0 : counts[0]);
  };
  for (const auto reduce : {Reduce::kSum, Reduce::kMax}) {
    const auto reduced = [&](std::size_t p, std::int64_t i) {
      T result = value<T>(ranks[0], p, i);
      for (std::size_t k = 1; k < ranks.size(); ++k) {
        const auto other = value<T>(ranks[k], p, i);
        result = reduce == Reduce::kSum ? static_cast<T>(result + other) : std::max(result, other);
      }
      return result;
    };
    Buffers<T> a(region, place, counts, 1, 1, me, true);
    comm.all_reduce(a.pieces, dtype, reduce);
    for (std::size_t p = 0; p < counts.size(); ++p) {
      expect_out<T>(
          a.pieces[p], counts[p], [&](std::int64_t i) { return reduced(p, i); }, where("all_reduce"));
    }
    comm.barrier();
    Buffers<T> b(region, place, counts, n, 1, me, false);
    comm.reduce_scatter(b.pieces, dtype, reduce);
    for (std::size_t p = 0; p < counts.size(); ++p) {
      expect_out<T>(
          b.pieces[p], counts[p], [&](std::int64_t i) { return reduced(p, comm.rank() * counts[p] + i); },
          where("reduce_scatter"));
    }
    comm.barrier();
  }
  Buffers<T> c(region, place, counts, 1, n, me, false);
  comm.all_gather(c.pieces, dtype);
  for (std::size_t p = 0; p < counts.size(); ++p) {
    const auto count = std::max<std::int64_t>(counts[p], 1);
    expect_out<T>(
        c.pieces[p], n * counts[p],
        [&](std::int64_t i) { return value<T>(ranks[static_cast<std::size_t>(i / count)], p, i % count); },
        where("all_gather"));
  }
  comm.barrier();
  Buffers<T> d(region, place, counts, n, n, me, false);
  comm.all_to_all(d.pieces, dtype);
  for (std::size_t p = 0; p < counts.size(); ++p) {
    const auto count = std::max<std::int64_t>(counts[p], 1);
    expect_out<T>(
        d.pieces[p], n * counts[p],
        [&](std::int64_t i) {
          return value<T>(ranks[static_cast<std::size_t>(i / count)], p, comm.rank() * count + i % count);
        },
        where("all_to_all"));
  }
  comm.barrier();
}

std::vector<std::int64_t> strided(const Shape& shape, std::int64_t index) {
  std::vector<std::int64_t> at(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    at[d] = index % shape[d];
    index /= shape[d];
  }
  return at;
}

std::int64_t position(const Shape& shape, const std::vector<std::int64_t>& start, const std::vector<std::int64_t>& at) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + start[d] + at[d];
  return index;
}

struct RandomBox {
  Shape tensor;
  Box box;
};

/// The k-th box that `from` sends to `to`: the same on all ranks.
RandomBox random_box(std::int64_t from, std::int64_t to, int k, const Shape& tensor) {
  std::mt19937_64 random(static_cast<std::uint64_t>((from * 64 + to) * 64 + k) * 1000003);
  RandomBox result{tensor, {}};
  for (const auto size : tensor) {
    const auto start = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size));
    const auto length =
        k == 0 ? size - start : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size - start + 1));
    result.box.start.push_back(start);
    result.box.size.push_back(length);
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> axis_group(const World& world, int size, int stride, bool reversed) {
  const int first = world.rank() / (size * stride) * (size * stride) + world.rank() % stride;
  std::vector<std::int64_t> ranks;
  for (int k = 0; k < size; ++k) ranks.push_back(first + k * stride);
  if (reversed) std::reverse(ranks.begin(), ranks.end());
  return ranks;
}

void check_collectives(World& world) {
  auto* region = static_cast<std::byte*>(world.communication_region(kRegionBytes));
  ASSERT_EQ(region[0], std::byte{0});
  ASSERT_EQ(region[kRegionBytes - 1], std::byte{0});
  // Several parts of the staging memory where a rank gives size() chunks.
  const std::int64_t large = (kInstrumented ? 70001 : 280001) / world.size();
  const std::vector<std::vector<std::int64_t>> sizes{{}, {0}, {1}, {1001}, {2048, 0, 3, 511}, {large, 7, 3333}};
  for (const auto& ranks : groups_of(world)) {
    auto& comm = world.communicator(ranks);
    ASSERT_EQ(&comm, &world.communicator(ranks));
    ASSERT_EQ(comm.size(), static_cast<int>(ranks.size()));
    ASSERT_EQ(ranks[static_cast<std::size_t>(comm.rank())], world.rank());
    for (const auto& counts : sizes) {
      for (const auto place :
           {Place::kRegion, Place::kHeap, Place::kSome, Place::kRegionInPlace, Place::kHeapInPlace}) {
        const bool in_place = place == Place::kRegionInPlace || place == Place::kHeapInPlace;
        if (!in_place || counts.size() == 1) check_group<float>(comm, ranks, region, DType::kF32, counts, place);
      }
    }
    for (const auto& counts : {std::vector<std::int64_t>{5}, std::vector<std::int64_t>{3001, 2}}) {
      for (const auto place : {Place::kRegion, Place::kHeap}) {
        check_group<double>(comm, ranks, region, DType::kF64, counts, place);
        check_group<std::int32_t>(comm, ranks, region, DType::kI32, counts, place);
        check_group<std::int64_t>(comm, ranks, region, DType::kI64, counts, place);
      }
    }
    world.barrier();
  }
}

void check_box_exchange(World& world) {
  auto* region = static_cast<std::byte*>(world.communication_region(kRegionBytes));
  for (const auto& ranks : groups_of(world)) {
    auto& comm = world.communicator(ranks);
    for (const std::int64_t scale : {1, kInstrumented ? 5 : 10}) {  // the second needs several rounds
      Shape tensor{5 * scale, 17, 9 * scale};
      const auto count = static_cast<std::size_t>(elements(tensor));
      std::vector<std::int32_t> heap(count);
      auto* in = scale == 1 ? reinterpret_cast<std::int32_t*>(region) : heap.data();
      for (std::size_t i = 0; i < count; ++i)
        in[i] = value<std::int32_t>(world.rank(), 0, static_cast<std::int64_t>(i));
      // Each member receives every box in a slab of its own.
      std::vector<BoxTransfer> sends, receives;
      std::int64_t slabs = 0;
      for (int peer = 0; peer < comm.size(); ++peer) {
        const auto other = ranks[static_cast<std::size_t>(peer)];
        for (int k = 0; k < (scale == 1 ? 3 : 1); ++k) {
          const auto sent = random_box(world.rank(), other, k, tensor);
          sends.push_back({peer, tensor, sent.box});
          slabs += 1;
        }
      }
      Shape out_shape{slabs * tensor[0], tensor[1], tensor[2]};
      std::vector<std::int32_t> out(static_cast<std::size_t>(elements(out_shape)), 7);
      std::int64_t slab = 0;
      for (int peer = 0; peer < comm.size(); ++peer) {
        for (int k = 0; k < (scale == 1 ? 3 : 1); ++k) {
          auto box = random_box(ranks[static_cast<std::size_t>(peer)], world.rank(), k, tensor).box;
          box.start = {slab++ * tensor[0], 0, 0};
          receives.push_back({peer, out_shape, box});
        }
      }
      comm.box_exchange(in, sends, out.data(), receives, DType::kI32);
      std::vector<std::int32_t> expected(out.size(), 7);
      slab = 0;
      for (int peer = 0; peer < comm.size(); ++peer) {
        const auto other = ranks[static_cast<std::size_t>(peer)];
        for (int k = 0; k < (scale == 1 ? 3 : 1); ++k, ++slab) {
          const auto [from, box] = random_box(other, world.rank(), k, tensor);
          for (std::int64_t i = 0; i < elements(box.size); ++i) {
            const auto at = strided(box.size, i);
            expected[static_cast<std::size_t>(position(out_shape, {slab * tensor[0], 0, 0}, at))] =
                value<std::int32_t>(other, 0, position(tensor, box.start, at));
          }
        }
      }
      EXPECT_TRUE(out == expected) << "group of " << comm.size() << ", scale " << scale;
      comm.barrier();
    }
    world.barrier();
  }
}

void check_bits(World& world, bool in_rank_order) {
  auto& comm = world.communicator(all_ranks(world));
  for (const std::int64_t count : {3, 900, 200001}) {
    const auto at = [&](int rank, std::int64_t i) {
      return std::sin(static_cast<float>(rank + 1) * 1.7F + static_cast<float>(i)) * (i % 3 == 0 ? 1e4F : 1e-3F);
    };
    std::vector<float> in(static_cast<std::size_t>(count)), out(in.size()), again(in.size());
    for (std::int64_t i = 0; i < count; ++i) in[static_cast<std::size_t>(i)] = at(world.rank(), i);
    comm.all_reduce({{in.data(), out.data(), count}}, DType::kF32, Reduce::kSum);
    comm.all_reduce({{in.data(), again.data(), count}}, DType::kF32, Reduce::kSum);
    EXPECT_TRUE(out == again);
    const std::string bits(reinterpret_cast<const char*>(out.data()), out.size() * sizeof(float));
    for (const auto& other : world.gather(bits)) EXPECT_TRUE(other == bits) << count;
    if (in_rank_order) {
      for (std::int64_t i = 0; i < count; ++i) {
        float sum = at(0, i);
        for (int rank = 1; rank < world.size(); ++rank) sum += at(rank, i);
        ASSERT_EQ(out[static_cast<std::size_t>(i)], sum) << i;
      }
    }
  }
}

void check_maximum_of_nan(World& world) {
  auto& comm = world.communicator(all_ranks(world));
  const float nan = world.rank() == world.size() - 1 ? NAN : 1;
  float result = 0;
  comm.all_reduce({{&nan, &result, 1}}, DType::kF32, Reduce::kMax);
  EXPECT_TRUE(std::isnan(result));
}

void check_counters(World& world) {
  const auto before = world.counters();
  auto& comm = world.communicator(all_ranks(world));
  const std::int64_t n = world.size();
  std::vector<float> a(static_cast<std::size_t>(n * n * 12)), b(a.size());
  comm.all_reduce({{a.data(), b.data(), 4 * n}, {a.data() + 4 * n, b.data() + 4 * n, 4 * n}}, DType::kF32,
                  Reduce::kSum);
  comm.reduce_scatter({{a.data(), b.data(), 4 * n}}, DType::kF32, Reduce::kSum);
  comm.all_gather({{a.data(), b.data(), 4}}, DType::kF32);
  comm.all_to_all({{a.data(), b.data(), 4 * n}}, DType::kF32);
  std::vector<BoxTransfer> transfers;
  for (int peer = 0; peer < n; ++peer) transfers.push_back({peer, {n, 3}, {{peer, 1}, {1, 2}}});
  comm.box_exchange(a.data(), transfers, b.data(), transfers, DType::kF32);
  comm.barrier();
  const auto after = world.counters();
  const auto expect = [&](const Counter& was, const Counter& is, std::int64_t bytes) {
    EXPECT_EQ(is.calls - was.calls, n == 1 ? 0 : 1);
    EXPECT_EQ(is.bytes - was.bytes, bytes);
  };
  expect(before.all_reduce, after.all_reduce, 2 * (n - 1) * 32);
  expect(before.reduce_scatter, after.reduce_scatter, (n - 1) * 16);
  expect(before.all_gather, after.all_gather, (n - 1) * 16);
  expect(before.all_to_all, after.all_to_all, (n - 1) * 16);
  expect(before.box_exchange, after.box_exchange, (n - 1) * 8);
}

void check_many_communicators(World& world) {
  std::vector<std::int64_t> ranks = all_ranks(world);
  std::mt19937_64 random(5);  // the same permutations on all ranks
  for (int k = 0; k < 200; ++k) {
    std::shuffle(ranks.begin(), ranks.end(), random);
    auto& comm = world.communicator(ranks);
    double sum = world.rank() + k;
    comm.all_reduce({{&sum, &sum, 1}}, DType::kF64, Reduce::kSum);
    const auto n = static_cast<double>(world.size());
    ASSERT_EQ(sum, n * (n - 1) / 2 + n * k);
  }
}

void check_control_plane(World& world) {
  const int last = world.size() - 1;
  EXPECT_EQ(world.broadcast(world.rank() == last ? std::string(100000, 'x') : "", last), std::string(100000, 'x'));
  EXPECT_EQ(world.broadcast(world.rank() == 0 ? "" : "no", 0), "");
  const auto texts = world.gather(std::string(static_cast<std::size_t>(world.rank()) * 3, 'a'));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(world.size()));
  for (std::size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r].size(), r * 3);
  EXPECT_FALSE(world.any(false));
  EXPECT_TRUE(world.any(world.rank() == last));
  EXPECT_FALSE(world.host().empty());
  EXPECT_GE(world.local_size(), 1);
  EXPECT_LT(world.local_rank(), world.local_size());
  world.barrier();
}

void check_in_a_hurry(World& world) {
  auto* region = static_cast<float*>(world.communication_region(1 << 20));
  const auto groups = groups_of(world);
  std::mt19937_64 random(11);
  std::vector<float> heap(4000);
  for (int k = 0; k < 300; ++k) {
    const auto g = random() % groups.size();
    const auto count = static_cast<std::int64_t>(random() % 3 == 0 ? 3000 : 1 + random() % 9);
    float* data = random() % 2 == 0 ? region : heap.data();
    auto& comm = world.communicator(groups[g]);
    std::fill_n(data, count, static_cast<float>(world.rank() + k));
    comm.all_reduce({{data, data, count}}, DType::kF32, Reduce::kSum);
    float sum = 0;
    for (const auto rank : groups[g]) sum += static_cast<float>(rank + k);
    ASSERT_EQ(std::count(data, data + count, sum), count) << "call " << k;
  }
}

}  // namespace tessera::comm
