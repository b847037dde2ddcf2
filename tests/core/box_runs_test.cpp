#include "core/box_runs.h"

#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"

namespace tessera {
namespace {

struct Case {
  Shape shape;
  Box box;
  std::int64_t length;
  std::vector<std::int64_t> starts;
};

TEST(BoxRuns, AreTheLongestContiguousPiecesInOrder) {
  const std::vector<Case> cases{{{4, 6}, {{1, 2}, {2, 3}}, 3, {8, 14}},
                                {{4, 6}, {{1, 0}, {2, 6}}, 12, {6}},
                                {{2, 3, 4}, {{0, 1, 0}, {2, 2, 4}}, 8, {4, 16}},
                                {{2, 3, 4}, {{0, 1, 1}, {2, 2, 2}}, 2, {5, 9, 17, 21}},
                                {{2, 3, 4}, {{1, 0, 0}, {1, 3, 4}}, 12, {12}},
                                {{5}, {{2}, {3}}, 3, {2}},
                                {{}, {{}, {}}, 1, {0}},
                                {{4, 6}, {{4, 2}, {0, 3}}, 3, {}},
                                {{4, 6}, {{1, 6}, {2, 0}}, 0, {}}};
  for (const auto& c : cases) {
    const BoxRuns runs(c.shape, c.box);
    std::vector<std::int64_t> starts;
    runs.for_each([&](std::int64_t start) { starts.push_back(start); });
    EXPECT_EQ(starts, c.starts) << to_string(c.shape) << " " << to_string(c.box);
    EXPECT_EQ(runs.length(), c.length) << to_string(c.box);
    EXPECT_EQ(runs.count(), static_cast<std::int64_t>(c.starts.size()));
    if (starts.empty()) continue;
    EXPECT_EQ(runs.end(), starts.back() + c.length);
    for (std::size_t k = 0; k < starts.size(); ++k) EXPECT_EQ(runs.start(static_cast<std::int64_t>(k)), starts[k]);
  }
}

TEST(BoxRuns, KnowTheInnermostStride) {
  const Shape shape{2, 3, 4};
  const Box inner{{0, 1, 1}, {2, 2, 2}}, one{{1, 0, 0}, {1, 3, 4}};
  EXPECT_EQ(BoxRuns(shape, inner).stride(), 4);
  EXPECT_EQ(BoxRuns(shape, one).stride(), 0);
}

TEST(BoxRuns, RefusesABoxThatReachesBeyondTheTensor) {
  const Shape shape{4, 6};
  const Box wide{{1, 2}, {2, 5}}, flat{{1}, {2}};
  EXPECT_TESSERA_ERROR(BoxRuns(shape, wide), ExitCode::kInternal, "[1:3, 2:7] of a tensor (4, 6)");
  EXPECT_TESSERA_ERROR(BoxRuns(shape, flat), ExitCode::kInternal, "of a tensor (4, 6)");
}

}  // namespace
}  // namespace tessera
