#include "partition/reshard.h"

#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "core/error.h"
#include "partition/placement.h"

namespace tessera::partition {
namespace {

using mesh::Axis;
using mesh::DeviceMesh;
using mesh::Layout;

Layout layout(std::vector<std::vector<Axis>> dims, std::vector<Axis> partial = {}) {
  return {std::move(dims), std::move(partial)};
}

// A tensor on all ranks of a mesh: the arrays that the ranks hold, which a move turns into new ones.
class Ranks {
 public:
  Ranks(const DeviceMesh& mesh, Shape shape) : mesh_(mesh), shape_(std::move(shape)) {}

  // Summands of a partial tensor are multiples of the value that add up to it.
  void scatter(const Layout& layout, const std::vector<double>& global) {
    local_.clear();
    for (std::int64_t r = 0; r < mesh_.ranks(); ++r) {
      const auto at = mesh_.coordinates(r);
      const auto n = mesh_.size(layout.partial), i = mesh_.index(at, layout.partial);
      const double share = n == 1      ? 1
                           : i + 1 < n ? 0.5 * static_cast<double>(i + 1)
                                       : 1 - 0.25 * static_cast<double>(n * (n - 1));
      auto x = read(global, box(layout, r));
      for (auto& v : x) v *= share;
      local_.push_back(std::move(x));
    }
  }

  void run(const Move& move) {
    std::vector<std::vector<double>> out(local_.size());
    for (std::int64_t r = 0; r < mesh_.ranks(); ++r) {
      const auto to = box(move.after, r);
      // Every kind is: from some ranks of the group, add what they hold of my new box.
      std::vector<double> global(static_cast<std::size_t>(elements(shape_)), 0.0);
      const auto add = [&](std::int64_t peer) {
        write(global, box(move.before, peer), local_[static_cast<std::size_t>(peer)]);
      };
      if (move.kind == MoveKind::kSlice) {
        add(r);
      } else if (move.kind == MoveKind::kZero) {
        if (mesh_.index(mesh_.coordinates(r), move.axes) == 0) add(r);
      } else if (move.kind == MoveKind::kPad) {
        add(r);
      } else if (move.kind == MoveKind::kBoxExchange) {
        exchange(global, move, r);
      } else {
        for (const auto peer : mesh_.group(r, move.axes)) add(peer);
      }
      out[static_cast<std::size_t>(r)] = read(global, to);
    }
    local_ = std::move(out);
  }

  // The sum over the partial axes must be `global`, on every rank.
  void expect(const Layout& layout, const std::vector<double>& global) const {
    for (std::int64_t r = 0; r < mesh_.ranks(); ++r) {
      const auto want = read(global, box(layout, r));
      std::vector<double> sum(want.size(), 0.0);
      for (const auto peer : mesh_.group(r, layout.partial)) {
        const auto& x = local_[static_cast<std::size_t>(peer)];
        ASSERT_EQ(x.size(), sum.size());
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
      }
      for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], want[i], 1e-9) << "rank " << r;
    }
  }

 private:
  Box box(const Layout& layout, std::int64_t rank) const {
    return mesh::owned(layout, mesh_, mesh_.coordinates(rank), shape_).front();
  }

  template <typename Visit>
  void visit(const Box& box, Visit f) const {
    const auto strides = strides_of(shape_);
    for (std::int64_t i = 0, n = elements(box.size); i < n; ++i) {
      std::int64_t rest = i, at = 0;
      for (std::size_t d = shape_.size(); d-- > 0; rest /= box.size[d])
        at += (box.start[d] + rest % box.size[d]) * strides[d];
      f(static_cast<std::size_t>(i), static_cast<std::size_t>(at));
    }
  }

  std::vector<double> read(const std::vector<double>& global, const Box& box) const {
    std::vector<double> x(static_cast<std::size_t>(elements(box.size)));
    visit(box, [&](std::size_t i, std::size_t at) { x[i] = global[at]; });
    return x;
  }

  void write(std::vector<double>& global, const Box& box, const std::vector<double>& x) const {
    visit(box, [&](std::size_t i, std::size_t at) { global[at] += x[i]; });
  }

  // From the ranks that are like `rank` on the axes that are still partial; a copy counts once.
  void exchange(std::vector<double>& global, const Move& move, std::int64_t rank) const {
    std::vector<Box> seen;
    for (std::int64_t peer = 0; peer < mesh_.ranks(); ++peer) {
      if (mesh_.index(mesh_.coordinates(peer), move.before.partial) !=
          mesh_.index(mesh_.coordinates(rank), move.before.partial))
        continue;
      const auto from = box(move.before, peer);
      if (std::find(seen.begin(), seen.end(), from) != seen.end()) continue;
      seen.push_back(from);
      write(global, from, local_[static_cast<std::size_t>(peer)]);
    }
  }

  const DeviceMesh& mesh_;
  Shape shape_;
  std::vector<std::vector<double>> local_;
};

std::vector<double> numbers(const Shape& shape) {
  std::vector<double> x(static_cast<std::size_t>(elements(shape)));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = 1.0 + 0.37 * static_cast<double>(i % 101) - static_cast<double>(i % 7);
  return x;
}

Layout random_layout(std::mt19937& random, const DeviceMesh& mesh, std::size_t rank) {
  std::vector<Axis> order(static_cast<std::size_t>(mesh.axis_count()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  auto placement = replicated_placement();
  for (std::size_t a = 0; a < order.size(); ++a)
    placement[a] = static_cast<Place>(std::uniform_int_distribution<int>(-2, static_cast<int>(rank) - 1)(random));
  return to_layout(placement, order, rank);
}

TEST(Reshard, RandomPairsOfLayoutsKeepTheTensor) {
  const DeviceMesh meshes[] = {{{4}, {"a"}, 4},
                               {{2, 3}, {"a", "b"}, 6},
                               {{2, 3, 2}, {"a", "b", "c"}, 12},
                               {{2, 2, 3, 2}, {"a", "b", "c", "d"}, 24}};
  std::mt19937 random(7);
  int forbidden = 0, boxes = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const auto& mesh = meshes[static_cast<std::size_t>(trial) % std::size(meshes)];
    const std::size_t rank = static_cast<std::size_t>(trial) % 3;
    const Shape shape(rank, mesh.ranks());
    const auto from = random_layout(random, mesh, rank), to = random_layout(random, mesh, rank);
    const auto moves = reshard(mesh, from, to, /*pad=*/true, /*zero=*/true);
    if (!moves) {
      ++forbidden;  // a sum must be made of an axis that is not the last of its dimension
      continue;
    }
    SCOPED_TRACE(to_string(from, mesh) + " -> " + to_string(to, mesh));
    Ranks ranks(mesh, shape);
    const auto global = numbers(shape);
    ranks.scatter(from, global);
    auto now = from;
    for (const auto& move : *moves) {
      ASSERT_EQ(move.before, now);
      ASSERT_FALSE(move.axes.empty());
      ranks.run(move);
      now = move.after;
      ranks.expect(now, global);
      boxes += move.kind == MoveKind::kBoxExchange;
    }
    ASSERT_EQ(now, to);
  }
  EXPECT_LT(forbidden, 400);
  EXPECT_GT(boxes, 50);
}

TEST(Reshard, ToPartialNeedsPermission) {
  const DeviceMesh mesh({4}, {"model"}, 4);
  const auto whole = layout({{}}), split = layout({{0}}), sum = layout({{}}, {0});
  EXPECT_FALSE(reshard(mesh, whole, sum, true, false));
  EXPECT_FALSE(reshard(mesh, split, sum, false, true));
  EXPECT_EQ(reshard(mesh, whole, sum, false, true)->front().kind, MoveKind::kZero);
  EXPECT_EQ(reshard(mesh, split, sum, true, false)->front().kind, MoveKind::kPad);
  EXPECT_TRUE(reshard(mesh, sum, sum, false, false)->empty());
}

TEST(Reshard, GathersOfOneDimensionFuseMajorToMinor) {
  const DeviceMesh mesh({2, 4}, {"batch", "model"}, 8);
  const auto moves = reshard(mesh, layout({{0, 1}, {}}), mesh::replicated(2), false, false);
  ASSERT_EQ(moves->size(), 1U);
  EXPECT_EQ(moves->front().axes, (std::vector<Axis>{0, 1}));
  EXPECT_EQ(moved_bytes(mesh, moves->front(), 800), 700);
}

TEST(Reshard, FullyShardedKernelGathersItsBatchAxisOnly) {
  const DeviceMesh mesh({2, 4}, {"batch", "model"}, 8);
  const auto moves = reshard(mesh, layout({{}, {1, 0}}), layout({{}, {1}}), false, false);
  ASSERT_EQ(moves->size(), 1U);
  EXPECT_EQ(moves->front().kind, MoveKind::kAllGather);
  EXPECT_EQ(moves->front().axes, (std::vector<Axis>{0}));
  EXPECT_EQ(first_repeated(mesh, *moves), 0U);
}

TEST(Reshard, AnotherOrderOfAxesIsABoxExchange) {
  const DeviceMesh mesh({2, 4}, {"batch", "model"}, 8);
  const auto moves = reshard(mesh, layout({{0, 1}}), layout({{1, 0}}), false, false);
  ASSERT_EQ(moves->size(), 1U);
  EXPECT_EQ(moves->front().kind, MoveKind::kBoxExchange);
  EXPECT_EQ(moved_bytes(mesh, moves->front(), 800), 100);  // some rank keeps nothing
  EXPECT_EQ(first_repeated(mesh, *moves), 1U);             // nothing enlarges
}

TEST(Reshard, SavedBeforeTheGathersAndAfterTheSums) {
  const DeviceMesh mesh({2, 4}, {"batch", "model"}, 8);
  const auto moves = reshard(mesh, layout({{0}, {}}, {1}), layout({{}, {1}}), false, false);
  ASSERT_EQ(moves->size(), 2U);
  EXPECT_EQ((*moves)[0].kind, MoveKind::kReduceScatter);
  EXPECT_EQ((*moves)[1].kind, MoveKind::kAllGather);
  EXPECT_EQ(first_repeated(mesh, *moves), 1U);
}

TEST(Reshard, SuffixOfAxesMovesInOneAllToAll) {
  const DeviceMesh mesh({2, 2, 2}, {"a", "b", "c"}, 8);
  const auto moves = reshard(mesh, layout({{0, 1, 2}, {}}), layout({{0}, {1, 2}}), false, false);
  ASSERT_EQ(moves->size(), 1U);
  EXPECT_EQ(moves->front().kind, MoveKind::kAllToAll);
  EXPECT_EQ(moves->front().axes, (std::vector<Axis>{1, 2}));
}

}  // namespace
}  // namespace tessera::partition
