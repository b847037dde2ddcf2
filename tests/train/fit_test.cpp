#include "train/fit.h"

#include <cmath>

#include <gtest/gtest.h>

#include "support/fit_on.h"
#include "train/evaluate.h"
#include "train/verify.h"

namespace tessera::train {
namespace {

using test::fit_on;

constexpr auto kConfig = R"(
version: 1
name: tiny
seed: 3
model:
  inputs: {x: {shape: [12]}}
  layers:
    - Dense: {name: dense_1, units: 8, activation: tanh}
    - Dense: {name: dense_2, units: 4}
DISTRIBUTION
compile:
  optimizer: OPTIMIZER
  loss: mse
  metrics: [mae]
data:
  train: {random: {samples: 44}}
  validation: {random: {samples: 20}}
fit: {epochs: 3, batch_size: 16}
)";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  return text.replace(text.find(what), what.size(), with);
}

config::Spec spec_of(const std::string& distribution, const std::string& optimizer,
                     const std::vector<std::string>& overrides = {}) {
  const auto text = replaced(replaced(kConfig, "DISTRIBUTION", distribution), "OPTIMIZER", optimizer);
  return config::parse_spec(text, "tiny.yaml", overrides);
}

void expect_equal(const test::History& found, const test::History& expected) {
  ASSERT_EQ(found.batch_losses.size(), expected.batch_losses.size());
  for (std::size_t k = 0; k < found.batch_losses.size(); ++k)
    EXPECT_NEAR(found.batch_losses[k], expected.batch_losses[k], 1e-5 * expected.batch_losses[k]);
  ASSERT_EQ(found.history.size(), expected.history.size());
  for (std::size_t e = 0; e < found.history.size(); ++e)
    for (const auto& [name, value] : expected.history[e]) EXPECT_NEAR(found.history[e].at(name), value, 1e-4) << name;
}

constexpr auto kTensorParallel = R"(
distribution:
  ModelParallel:
    mesh: {shape: [-1, 2], axis_names: [batch, model]}
    layout_map: {dense_1/kernel: [null, model], dense_1/bias: [model], dense_2/kernel: [model, null]}
)";
constexpr auto kSharded = R"(
distribution:
  ModelParallel:
    mesh: {shape: [-1], axis_names: [batch]}
    layout_map: {dense_1/kernel: [null, batch], dense_2/kernel: [batch, null]}
)";

TEST(Fit, HistoryHasKerasKeysAndFallingLoss) {
  const auto result = fit_on(1, spec_of("", "{SGD: {learning_rate: 0.1, momentum: 0.9}}"));
  ASSERT_EQ(result.history.size(), 3u);
  EXPECT_EQ(result.batch_losses.size(), 9u);  // 16, 16, 12 rows
  std::vector<std::string> keys;
  for (const auto& [name, value] : result.history[0]) keys.push_back(name);
  EXPECT_EQ(keys, (std::vector<std::string>{"loss", "mae", "val_loss", "val_mae"}));
  EXPECT_LT(result.history[2].at("loss"), result.history[0].at("loss"));
}

TEST(Fit, AnEpochsLossIsTheMeanOfItsBatchesByRows) {
  const auto result = fit_on(1, spec_of("", "sgd"));
  const auto& b = result.batch_losses;
  EXPECT_NEAR(result.history[0].at("loss"), (16 * b[0] + 16 * b[1] + 12 * b[2]) / 44, 1e-12);
}

TEST(Fit, EveryMeshHasTheHistoryOfOneRank) {
  const std::string optimizer = "{SGD: {learning_rate: 0.1, momentum: 0.9}}";
  const auto expected = fit_on(1, spec_of("", optimizer));
  expect_equal(fit_on(2, spec_of("", optimizer)), expected);
  expect_equal(fit_on(4, spec_of("", optimizer)), expected);
  expect_equal(fit_on(2, spec_of(kTensorParallel, optimizer)), expected);
  expect_equal(fit_on(4, spec_of(kTensorParallel, optimizer)), expected);
  expect_equal(fit_on(4, spec_of(kSharded, optimizer)), expected);
}

TEST(Fit, OverlappedCommunicationChangesNoBit) {
  for (const auto* const distribution : {"", kTensorParallel, kSharded}) {
    const auto spec = spec_of(distribution, "adam");
    EXPECT_EQ(fit_on(4, spec, true).batch_losses, fit_on(4, spec, false).batch_losses);
  }
}

TEST(Fit, MicroBatchesChangeNothing) {
  const std::string optimizer = "{SGD: {learning_rate: 0.1}}";
  const auto expected = fit_on(1, spec_of("", optimizer));
  const std::vector<std::string> two{"distribution.micro_batches=2"};
  expect_equal(fit_on(1, spec_of("distribution: {DataParallel: {}}", optimizer, two)), expected);
  expect_equal(fit_on(2, spec_of("distribution: {DataParallel: {}}", optimizer, two)), expected);
}

TEST(Fit, StepsPerEpochGoOnInTheDataFromEpochToEpoch) {
  const auto whole = fit_on(1, spec_of("", "{SGD: {learning_rate: 0.0}}", {"fit.epochs=1", "fit.shuffle=false"}));
  const auto parts = fit_on(
      1, spec_of("", "{SGD: {learning_rate: 0.0}}", {"fit.epochs=3", "fit.steps_per_epoch=1", "fit.shuffle=false"}));
  ASSERT_EQ(parts.batch_losses.size(), 3u);
  for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(parts.batch_losses[k], whole.batch_losses[k]);
}

TEST(Fit, ALossThatIsNotFiniteEndsTheRunWithStepAndVariable) {
  for (const int ranks : {1, 2}) {
    try {
      fit_on(ranks, spec_of("", "{SGD: {learning_rate: 1.0e+30}}"));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kNotFinite);
      EXPECT_NE(std::string(error.what()).find("step "), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("dense_"), std::string::npos) << error.what();
    }
  }
}

TEST(Fit, OneRanksStopEndsAllRanksAfterTheStep) {
  comm::run_on_threads(2, [&](comm::World& world) {
    const auto spec = spec_of("", "sgd");
    Session session(spec, world, {.programs = {"train", "evaluate"}, .threads = 1});
    test::History observer;
    int asked = 0;
    const auto result = fit(session, observer, [&] { return ++asked == 2 && world.rank() == 1; });
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.steps, 2);
    EXPECT_TRUE(observer.history.empty());
  });
}

TEST(Fit, TheAveragesAreInTheModelAtTheEnd) {
  const auto spec = spec_of("", "{SGD: {learning_rate: 0.1, use_ema: true, ema_momentum: 0.5}}", {"fit.epochs=1"});
  comm::run_on_threads(2, [&](comm::World& world) {
    Session session(spec, world, {.programs = {"train", "evaluate"}, .threads = 1});
    Observer observer;
    fit(session, observer, [] { return false; });
    for (const auto& [weight, average] : layers::optimizer_info(spec).averages) {
      std::vector<float> a(static_cast<std::size_t>(elements(session.executor().state(weight).local))), b(a.size());
      session.executor().read_state(weight, a.data());
      session.executor().read_state(average, b.data());
      EXPECT_EQ(a, b) << weight;
    }
  });
}

TEST(Evaluate, EveryMeshFindsTheSame) {
  const auto logs_on = [](int ranks) {
    const auto spec = spec_of("", "sgd");
    Logs logs;
    comm::run_on_threads(ranks, [&](comm::World& world) {
      Session session(spec, world, {.programs = {"evaluate"}, .threads = 1});
      Feed feed(session, "evaluate", "validation", {.restart = true, .every_row = true});
      const auto own = evaluate(session, feed);
      if (world.rank() == 0) logs = own;
    });
    return logs;
  };
  const auto expected = logs_on(1), found = logs_on(4);
  EXPECT_NEAR(found.at("loss"), expected.at("loss"), 1e-6);
  EXPECT_NEAR(found.at("mae"), expected.at("mae"), 1e-6);
}

TEST(Verify, FindsAMeshEqualToOneDevice) {
  for (const auto* const optimizer : {"adam", "{SGD: {learning_rate: 0.1, gradient_accumulation_steps: 2}}"})
    comm::run_on_threads(4, [&](comm::World& world) {
      const auto result = verify(spec_of(kTensorParallel, optimizer), world, {.programs = {}, .threads = 1}, 3);
      EXPECT_TRUE(result.equal()) << result.differences.front().what << " " << result.differences.front().found;
      EXPECT_GE(result.differences.size(), 3u + 4u);
    });
}

}  // namespace
}  // namespace tessera::train
