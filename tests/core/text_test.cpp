#include "core/text.h"

#include <gtest/gtest.h>

#include "core/attributes.h"
#include "core/shape.h"

namespace tessera {
namespace {

TEST(Text, NearestFindsASwappedLetter) {
  EXPECT_EQ(did_you_mean("dense_1/kernle", {"dense_1/bias", "dense_1/kernel"}), "; did you mean 'dense_1/kernel'?");
}

TEST(Text, NearestIsSilentAboutStrangers) { EXPECT_EQ(did_you_mean("xyz", {"epochs", "shuffle"}), ""); }

TEST(Text, NearestIsSilentAboutAWordWithTheSameFirstHalf) {
  EXPECT_EQ(did_you_mean("validation_split", {"validation_steps", "validation_freq"}), "");
}

TEST(Text, NearestKnowsTheInitialsOfOneCandidate) {
  EXPECT_EQ(did_you_mean("lr", {"name", "learning_rate"}), "; did you mean 'learning_rate'?");
  EXPECT_EQ(did_you_mean("lr", {"loss_rate", "learning_rate"}), "");
  EXPECT_EQ(did_you_mean("l", {"loss", ""}), "");
}

TEST(Text, HumanBytes) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
}

TEST(Shape, IntersectionOfApartBoxesIsEmpty) {
  EXPECT_TRUE(empty(intersection({{0, 0}, {2, 4}}, {{2, 0}, {2, 4}})));
  EXPECT_EQ(intersection({{0, 2}, {4, 4}}, {{2, 0}, {4, 4}}), (Box{{2, 2}, {2, 2}}));
}

TEST(Attributes, PrintInAlphabeticalOrder) {
  EXPECT_EQ(to_string(Attributes{{"b", true}, {"a", std::int64_t{2}}}), "{a=2, b=true}");
}

}  // namespace
}  // namespace tessera
