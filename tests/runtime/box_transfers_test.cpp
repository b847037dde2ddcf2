#include "runtime/box_transfers.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace tessera::runtime {
namespace {

const mesh::DeviceMesh kMesh({2, 2}, {"x", "y"}, 4);
const std::vector<std::int64_t> kEveryone{0, 1, 2, 3};

/// Every element of every rank's new box comes exactly once, from a rank that holds it.
void expect_complete(const Shape& shape, const mesh::Layout& from, const mesh::Layout& to) {
  std::vector<BoxTransfers> all;
  for (std::int64_t rank = 0; rank < 4; ++rank) all.push_back(box_transfers(kMesh, kEveryone, rank, shape, from, to));
  for (int receiver = 0; receiver < 4; ++receiver) {
    const auto& receives = all[static_cast<std::size_t>(receiver)].receives;
    std::int64_t covered = 0;
    for (const auto& r : receives) {
      covered += elements(r.box.size);
      const auto& sends = all[static_cast<std::size_t>(r.peer)].sends;
      const auto met = std::find_if(sends.begin(), sends.end(), [&](const auto& s) { return s.peer == receiver; });
      ASSERT_NE(met, sends.end());
      EXPECT_EQ(met->box.size, r.box.size);
    }
    EXPECT_EQ(covered, elements(mesh::local_shape(to, kMesh, shape)));
  }
}

TEST(BoxTransfers, CoverEveryNewBox) {
  const mesh::Layout rows{{{0}, {1}}, {}}, columns{{{1}, {0}}, {}}, flat{{{0, 1}, {}}, {}}, swapped{{{1, 0}, {}}, {}};
  const auto none = mesh::replicated(2);
  const std::vector layouts{rows, columns, flat, swapped, none};
  for (const auto& from : layouts)
    for (const auto& to : layouts) expect_complete({8, 12}, from, to);
}

TEST(BoxTransfers, AReplicaServesItself) {
  const auto transfers = box_transfers(kMesh, kEveryone, 2, {8, 12}, mesh::replicated(2), {{{0}, {}}, {}});
  ASSERT_EQ(transfers.receives.size(), 1u);
  EXPECT_EQ(transfers.receives[0].peer, 2);
  EXPECT_EQ(transfers.sends.size(), 1u);
}

TEST(BoxTransfers, ReplicasShareTheLoad) {
  // Ranks 0, 2 hold the left half, 1, 3 the right one; all want everything.
  const mesh::Layout columns{{{}, {1}}, {}};
  const auto of_two = box_transfers(kMesh, kEveryone, 2, {4, 4}, columns, mesh::replicated(2));
  EXPECT_EQ(of_two.sends.size(), 2u);  // itself and rank 3
}

TEST(BoxTransfers, AGroupWithoutTheDataIsAnError) {
  EXPECT_THROW(box_transfers(kMesh, {0, 1}, 0, {8, 12}, {{{0}, {}}, {}}, mesh::replicated(2)), Error);
}

}  // namespace
}  // namespace tessera::runtime
