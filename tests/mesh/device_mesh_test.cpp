#include "mesh/device_mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"

namespace tessera::mesh {
namespace {

using testing::ElementsAre;

TEST(DeviceMesh, KerasExampleOfFourByTwo) {
  const DeviceMesh mesh({4, 2}, {"batch", "model"}, 8);
  EXPECT_THAT(mesh.shape(), ElementsAre(4, 2));
  EXPECT_EQ(mesh.ranks(), 8);
  EXPECT_EQ(to_string(mesh), "(batch 4, model 2)");
}

TEST(DeviceMesh, LastAxisChangesFastest) {
  const DeviceMesh mesh({2, 3}, {"a", "b"}, 6);
  EXPECT_THAT(mesh.coordinates(4), ElementsAre(1, 1));
  EXPECT_EQ(mesh.rank_at({1, 1}), 4);
  for (std::int64_t rank = 0; rank < 6; ++rank) EXPECT_EQ(mesh.rank_at(mesh.coordinates(rank)), rank);
}

TEST(DeviceMesh, MinusOneIsFilled) {
  EXPECT_THAT(DeviceMesh({2, -1}, {"a", "b"}, 8).shape(), ElementsAre(2, 4));
  EXPECT_THAT(DeviceMesh({-1}, {"a"}, 1).shape(), ElementsAre(1));
}

TEST(DeviceMesh, WithoutAxesItIsOneRank) {
  const DeviceMesh mesh;
  EXPECT_EQ(mesh.ranks(), 1);
  EXPECT_TRUE(mesh.coordinates(0).empty());
  EXPECT_THAT(mesh.group(0, {}), ElementsAre(0));
}

TEST(DeviceMesh, IndexGoesMajorToMinorThroughTheList) {
  const DeviceMesh mesh({2, 3, 4}, {"a", "b", "c"}, 24);
  EXPECT_EQ(mesh.index({1, 2, 3}, {}), 0);
  EXPECT_EQ(mesh.index({1, 2, 3}, {1}), 2);
  EXPECT_EQ(mesh.index({1, 2, 3}, {0, 2}), 1 * 4 + 3);
  EXPECT_EQ(mesh.index({1, 2, 3}, {2, 0}), 3 * 2 + 1);
  EXPECT_EQ(mesh.size({2, 0}), 8);
}

TEST(DeviceMesh, GroupIsInTheOrderOfTheList) {
  const DeviceMesh mesh({2, 3}, {"a", "b"}, 6);
  EXPECT_THAT(mesh.group(4, {0}), ElementsAre(1, 4));
  EXPECT_THAT(mesh.group(4, {1}), ElementsAre(3, 4, 5));
  EXPECT_THAT(mesh.group(4, {1, 0}), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(mesh.group(4, {}), ElementsAre(4));
}

TEST(DeviceMesh, PositionInTheGroupIsTheIndex) {
  const DeviceMesh mesh({2, 3, 2}, {"a", "b", "c"}, 12);
  const std::vector<Axis> axes{2, 1};
  for (std::int64_t rank = 0; rank < 12; ++rank) {
    const auto group = mesh.group(rank, axes);
    EXPECT_EQ(group[static_cast<std::size_t>(mesh.index(mesh.coordinates(rank), axes))], rank);
  }
}

TEST(DeviceMesh, FindNamesAxes) {
  const DeviceMesh mesh({2, 3}, {"a", "b"}, 6);
  EXPECT_EQ(mesh.find("b"), 1);
  EXPECT_EQ(mesh.find("c"), -1);
}

TEST(DeviceMesh, EmptyShapeOrNamesIsAnError) {
  EXPECT_CONFIG_ERROR(DeviceMesh({}, {}, 1), "shape is empty");
  EXPECT_CONFIG_ERROR(DeviceMesh({2}, {}, 2), "axis_names is empty");
}

TEST(DeviceMesh, SizesAndNamesOfDifferentNumberAreAnError) {
  EXPECT_CONFIG_ERROR(DeviceMesh({4, 2}, {"batch"}, 8),
                      "mesh shape (4, 2) has 2 sizes, but axis_names [batch] has 1; write one name a size");
}

TEST(DeviceMesh, ProductThatIsNotTheNumberOfRanksSaysWhichNpFits) {
  EXPECT_CONFIG_ERROR(DeviceMesh({4, 2}, {"batch", "model"}, 6),
                      "mesh shape (4, 2) needs 8 ranks, but there are 6: start it with -np 8");
  EXPECT_CONFIG_ERROR(DeviceMesh({2, -1}, {"batch", "model"}, 7), "start it with -np 6 or 8");
  EXPECT_CONFIG_ERROR(DeviceMesh({4, -1}, {"batch", "model"}, 1), "start it with -np 4");
}

TEST(DeviceMesh, RepeatedNameBadSizeAndSecondMinusOneAreErrors) {
  EXPECT_CONFIG_ERROR(DeviceMesh({2, 2}, {"a", "a"}, 4), "mesh axis 'a' is named twice");
  EXPECT_CONFIG_ERROR(DeviceMesh({2, 0}, {"a", "b"}, 0), "mesh axis 'b' has size 0");
  EXPECT_CONFIG_ERROR(DeviceMesh({2, -2}, {"a", "b"}, 4), "mesh axis 'b' has size -2");
  EXPECT_CONFIG_ERROR(DeviceMesh({-1, -1}, {"a", "b"}, 4), "has two -1, axes 'a' and 'b'");
  EXPECT_CONFIG_ERROR(DeviceMesh({2, 2}, {"a", ""}, 4), "mesh axis 1 has an empty name");
}

TEST(DeviceMesh, SizesThatOverflowAreAnError) {
  EXPECT_CONFIG_ERROR(DeviceMesh({1LL << 40, 1LL << 40}, {"a", "b"}, 4), "more ranks than can be counted");
}

TEST(DeviceMesh, AtMostEightAxes) {
  EXPECT_CONFIG_ERROR(DeviceMesh(std::vector<std::int64_t>(9, 1), {"a", "b", "c", "d", "e", "f", "g", "h", "i"}, 1),
                      "at most 8");
}

}  // namespace
}  // namespace tessera::mesh
