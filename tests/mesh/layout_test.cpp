#include "mesh/layout.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"

namespace tessera::mesh {
namespace {

using testing::ElementsAre;

const DeviceMesh& two_by_four() {
  static const DeviceMesh kMesh({2, 4}, {"batch", "model"}, 8);
  return kMesh;
}

TEST(Layout, PrintsNullForAnUnsplitDimension) {
  const auto& mesh = two_by_four();
  EXPECT_EQ(to_string(Layout{{{}, {1}}, {}}, mesh), "[null, model]");
  EXPECT_EQ(to_string(Layout{{{1, 0}, {}}, {}}, mesh), "[(model, batch), null]");
  EXPECT_EQ(to_string(Layout{{{0}}, {1}}, mesh), "[batch] partial {model}");
  EXPECT_EQ(to_string(replicated(0), mesh), "[]");
}

TEST(Layout, WorkedExampleOfTheHeader) {
  const Shape shape{128, 4096};
  const auto& mesh = two_by_four();
  EXPECT_THAT(owned({{{0}, {1}}, {}}, mesh, {1, 2}, shape), ElementsAre(Box{{64, 2048}, {64, 1024}}));
  EXPECT_THAT(owned({{{0}, {}}, {1}}, mesh, {1, 2}, shape), ElementsAre(Box{{64, 0}, {64, 4096}}));
}

TEST(Layout, TwoAxesOnOneDimensionGoMajorToMinor) {
  const auto& mesh = two_by_four();
  EXPECT_THAT(owned({{{0, 1}}, {}}, mesh, {1, 2}, {16}), ElementsAre(Box{{12}, {2}}));
  EXPECT_THAT(owned({{{1, 0}}, {}}, mesh, {1, 2}, {16}), ElementsAre(Box{{10}, {2}}));
}

TEST(Layout, ScalarIsOwnedByAll) {
  EXPECT_THAT(owned(replicated(0), two_by_four(), {1, 3}, {}), ElementsAre(Box{{}, {}}));
}

TEST(Layout, DimensionOfSizeOneStaysWhole) {
  EXPECT_TRUE(is_even({{{}, {1}}, {}}, two_by_four(), {1, 4}));
  EXPECT_FALSE(is_even({{{0}, {1}}, {}}, two_by_four(), {1, 4}));
  EXPECT_EQ(local_shape({{{}, {1}}, {}}, two_by_four(), {1, 4}), (Shape{1, 1}));
}

TEST(Layout, UnevenOrOfAnotherRankIsAnInternalError) {
  EXPECT_TESSERA_ERROR(local_shape({{{1}}, {}}, two_by_four(), {6}), ExitCode::kInternal, "(6) as [model]");
  EXPECT_TESSERA_ERROR(owned({{{1}}, {}}, two_by_four(), {0, 0}, {4, 4}), ExitCode::kInternal, "(4, 4)");
}

// Every assignment of three axes to two dimensions (or none), each in every order.
std::vector<Layout> all_layouts(const DeviceMesh& mesh) {
  std::vector<Layout> layouts;
  std::vector<Axis> order(static_cast<std::size_t>(mesh.axis_count()));
  std::iota(order.begin(), order.end(), 0);
  do {
    for (int code = 0; code < 27; ++code) {
      Layout layout = replicated(2);
      for (int i = 0, rest = code; i < 3; ++i, rest /= 3)
        if (rest % 3 < 2) layout.dims[static_cast<std::size_t>(rest % 3)].push_back(order[static_cast<std::size_t>(i)]);
      layouts.push_back(layout);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return layouts;
}

// Initialisation that differs with the shard count is the fault that this excludes.
TEST(Layout, BoxesOfAllRanksCoverEachElementEquallyOften) {
  const DeviceMesh mesh({2, 3, 2}, {"a", "b", "c"}, 12);
  const Shape shape{12, 24};
  for (const auto& layout : all_layouts(mesh)) {
    std::vector<int> count(static_cast<std::size_t>(elements(shape)));
    for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      const auto boxes = owned(layout, mesh, mesh.coordinates(rank), shape);
      ASSERT_EQ(boxes.size(), 1U);
      EXPECT_EQ(boxes[0].size, local_shape(layout, mesh, shape));
      for (auto i = boxes[0].start[0]; i < boxes[0].start[0] + boxes[0].size[0]; ++i)
        for (auto j = boxes[0].start[1]; j < boxes[0].start[1] + boxes[0].size[1]; ++j)
          ++count[static_cast<std::size_t>(i * shape[1] + j)];
    }
    const auto copies = mesh.ranks() / (mesh.size(layout.dims[0]) * mesh.size(layout.dims[1]));
    EXPECT_EQ(std::count(count.begin(), count.end(), copies), elements(shape)) << to_string(layout, mesh);
  }
}

TEST(Layout, AMillionLocalShapesOn4096RanksTakeNoTime) {
  const DeviceMesh mesh({16, 16, 16}, {"replica", "shard", "model"}, 4096);
  const Layout layout{{{2}, {0, 1}}, {}};
  const auto start = std::chrono::steady_clock::now();
  std::int64_t sum = 0;
  for (int i = 0; i < 1000000; ++i) sum += local_shape(layout, mesh, {4096, 8192})[1];
  EXPECT_EQ(sum, 32000000);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace tessera::mesh
