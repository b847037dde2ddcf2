#include "layers/schedules.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "layers/reference.h"

namespace tessera::layers {
namespace {

TEST(Schedules, HaveKerasValues) {
  int count = 0;
  for (const auto& c : read_reference("schedules.json")) {
    const std::string name = c["schedule"];
    if (name != "ExponentialDecay" && name != "CosineDecay") continue;
    SCOPED_TRACE(c["config"].dump());
    const auto schedule = make_schedule(constructor_node(name, c["config"]));
    for (std::size_t i = 0; i < c["steps"].size(); ++i) {
      const double expected = c["values"][i];
      EXPECT_NEAR(schedule(c["steps"][i]), expected, 1e-9 + 2e-6 * expected);
    }
    ++count;
  }
  EXPECT_EQ(count, 5);
}

TEST(Schedules, ANumberIsConstant) { EXPECT_EQ(make_schedule(config::parse("0.25", "test.yaml"))(1000), 0.25); }

TEST(Schedules, UnknownNamesGetAHint) {
  EXPECT_CONFIG_ERROR(make_schedule(config::parse("{CosineDecy: {}}", "test.yaml")), "did you mean 'CosineDecay'?");
}

}  // namespace
}  // namespace tessera::layers
