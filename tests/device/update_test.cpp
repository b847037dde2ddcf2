// Optimizers, gradients' clipping and accumulation, metrics.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "device/harness.h"
#include "reference/ops.h"

namespace tessera::device::test {
namespace {

using reference::random;

constexpr double kRate = 0.05, kDecay = 0.01;

/// Asked for the sum of squares of the gradient the update gives it, and all else as before.
void expect_squares_too(KernelCase c) {
  auto sum = reference::zeros({}, DType::kF64);
  for (const auto v : c.inputs[1].tensor.data) sum[0] += v * v;
  c.expected.emplace_back(sum);
  c.attributes.set("sum_squares", true);
  expect_kernel(c);
  EXPECT_NEAR(run_kernel(device_with(2), c).back()[0], sum[0], 1e-11 * sum[0]) << c.name;
}

/// One update of every element: f(w, g, slots) changes w and the slots.
template <class F>
void expect_update(const std::string& name, std::size_t slots, const Attributes& attributes, std::int64_t iteration,
                   const F& f) {
  for (const std::int64_t n : {0, 1, 17, 32, 33, 255, 1025, 40'000}) {
    const auto w = random({n}, 1), g = random({n}, 2);
    KernelCase c{.name = name,
                 .inputs = {w, g},
                 .attributes = attributes,
                 .params = {.iteration = iteration, .learning_rate = kRate},
                 .scale = 0.1,
                 .in_place = {{0, 0}}};
    std::vector<Tensor> state;
    for (std::size_t k = 0; k < slots; ++k) {
      state.push_back(random({n}, 10 + k, 0.01, 1));
      c.inputs.emplace_back(state.back());
      c.in_place.emplace_back(static_cast<int>(k) + 1, static_cast<int>(k) + 2);
    }
    auto updated = w;
    for (std::int64_t i = 0; i < n; ++i) {
      std::vector<double> s;
      for (const auto& t : state) s.push_back(t[i]);
      updated[i] -= updated[i] * kDecay * kRate;
      f(updated[i], g[i], s);
      for (std::size_t k = 0; k < slots; ++k) state[k][i] = s[k];
    }
    c.expected = {updated};
    for (const auto& t : state) c.expected.emplace_back(t);
    expect_kernel(c);
    if (!on_gpu()) expect_squares_too(c);
    c.shift = 1;
    expect_kernel(c);
  }
}

TEST(Sgd, EqualsKerasFormula) {
  expect_update("sgd_update", 0, {{"weight_decay", kDecay}}, 0, [](double& w, double g, auto&) { w -= kRate * g; });
  for (const bool nesterov : {false, true})
    expect_update("sgd_update", 1, {{"weight_decay", kDecay}, {"momentum", 0.9}, {"nesterov", nesterov}}, 0,
                  [&](double& w, double g, auto& s) {
                    s[0] = 0.9 * s[0] - kRate * g;
                    w += nesterov ? 0.9 * s[0] - kRate * g : s[0];
                  });
}

TEST(Adam, EqualsKerasFormula) {
  for (const bool amsgrad : {false, true})
    for (const std::int64_t iteration : {0, 1, 1000})
      expect_update(
          "adam_update", amsgrad ? 3 : 2,
          {{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}, {"amsgrad", amsgrad}, {"weight_decay", kDecay}},
          iteration, [&](double& w, double g, auto& s) {
            const auto t = static_cast<double>(iteration + 1);
            s[0] += (g - s[0]) * 0.1;
            s[1] += (g * g - s[1]) * 0.001;
            if (amsgrad) s[2] = std::max(s[2], s[1]);
            const auto alpha = kRate * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
            w -= alpha * s[0] / (std::sqrt(s[amsgrad ? 2 : 1]) + 1e-7);
          });
}

TEST(Rmsprop, EqualsKerasFormula) {
  for (const bool centered : {false, true})
    for (const double momentum : {0.0, 0.8}) {
      const std::size_t slots = 1 + (centered ? 1 : 0) + (momentum > 0 ? 1 : 0);
      expect_update(
          "rmsprop_update", slots,
          {{"rho", 0.9}, {"epsilon", 1.2}, {"centered", centered}, {"momentum", momentum}, {"weight_decay", kDecay}}, 0,
          [&](double& w, double g, auto& s) {
            s[0] = 0.9 * s[0] + 0.1 * g * g;
            auto root = s[0] + 1.2;  // positive for any state
            if (centered) {
              s[1] = 0.9 * s[1] + 0.1 * g;
              root -= s[1] * s[1];
            }
            auto step = kRate * g / std::sqrt(root);
            if (momentum > 0) step = s.back() = momentum * s.back() + step;
            w -= step;
          });
    }
}

TEST(Ema, BeginsAsTheVariableAndOverwritesItAtItsFrequency) {
  constexpr std::int64_t kSize = 1027;
  const auto a = random({kSize}, 1), w = random({kSize}, 2);
  for (const std::int64_t iteration : {0, 1, 2}) {
    auto average = a;
    for (std::int64_t i = 0; i < kSize; ++i) average[i] = iteration == 0 ? w[i] : 0.9 * a[i] + 0.1 * w[i];
    const StepParams params{.iteration = iteration};
    expect_kernel({.name = "ema_update",
                   .inputs = {a, w},
                   .expected = {average},
                   .attributes = {{"momentum", 0.9}},
                   .params = params,
                   .in_place = {{0, 0}}});
    expect_kernel({.name = "ema_overwrite",
                   .inputs = {w, a},
                   .expected = {iteration == 2 ? a : w},
                   .attributes = {{"frequency", std::int64_t{3}}},
                   .params = params,
                   .in_place = {{0, 0}}});
  }
}

TEST(ClipByNorm, FollowsKerasPerVariableAndGlobally) {
  const auto g = random({1030}, 1);
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto expect_factor = [&](double squares, bool global, double factor) {
    auto y = g;
    for (auto& v : y.data) v = std::isnan(factor) ? nan : v * factor;
    expect_kernel({.name = "clip_by_norm",
                   .inputs = {g, Tensor{{}, {squares}, DType::kF64}},
                   .expected = {y},
                   .attributes = {{"norm", 0.5}, {"global", global}},
                   .in_place = {{0, 0}}});
  };
  for (const bool global : {false, true}) {
    expect_factor(4, global, 0.25);  // norm 2
    expect_factor(0.01, global, 1);  // norm 0.1
    expect_factor(0, global, 1);
  }
  expect_factor(inf, false, 0);
  expect_factor(inf, true, nan);
  expect_factor(nan, true, nan);
}

TEST(Gradient, IsAccumulatedAndAveraged) {
  for (const std::int64_t n : {70, 1028})
    for (const std::int64_t shift : {0, 1}) {
      const auto acc = random({n}, 1), g = random({n}, 2);
      auto sum = acc, average = acc;
      for (std::int64_t i = 0; i < n; ++i) average[i] = (sum[i] = acc[i] + g[i]) / 3;
      expect_kernel(
          {.name = "accumulate_gradient", .inputs = {acc, g}, .expected = {sum}, .in_place = {{0, 0}}, .shift = shift});
      expect_kernel({.name = "average_gradient",
                     .inputs = {acc, g},
                     .expected = {average, reference::zeros({n})},
                     .attributes = {{"steps", std::int64_t{3}}},
                     .in_place = {{0, 1}, {1, 0}},
                     .shift = shift});
    }
}

TEST(MatchRows, KnowsTheThreeKindsOfAccuracy) {
  const Tensor p{{3, 2}, {0.9, 0.1, 0.4, 0.6, 0.7, 0.7}};
  const auto expect = [&](const std::string& kind, const Tensor& target, std::vector<double> values) {
    expect_kernel({.name = "match_rows",
                   .inputs = {p, target},
                   .expected = {Tensor{{3}, std::move(values)}},
                   .attributes = {{"kind", kind}, {"threshold", 0.5}}});
  };
  expect("binary", Tensor{{3, 2}, {1, 0, 1, 1, 0, 1}}, {1, 0.5, 0.5});
  expect("sparse", Tensor{{3}, {0, 0, 0}, DType::kI32}, {1, 0, 1});  // a tie is the first one
  expect("sparse", Tensor{{3, 1}, {0, 1, 1}}, {1, 1, 0});
  expect("categorical", Tensor{{3, 2}, {1, 0, 1, 0, 0.5, 0.5}}, {1, 0, 1});
}

/// As std::max_element finds it: the first of several, and a NaN only where it is the first number of all.
TEST(MatchRows, FindTheFirstLargestOfRowsOfAllWidths) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const std::int64_t cols : {5, 33, 257, 1028, 2049}) {
    auto p = reference::random({7, cols}, 1);
    p[cols - 1] = p[cols - 3] = 2;
    p[cols + 1] = nan, p[cols + 4] = 2;
    p[2 * cols] = nan;
    for (std::int64_t c = 0; c < cols; ++c) p[3 * cols + c] = -inf;
    p[4 * cols + cols / 2] = inf;
    p[5 * cols] = p[6 * cols - 1] = 3;
    const auto half = cols / 2;
    std::vector<double> right{static_cast<double>(cols - 3), 4, 0, 0, static_cast<double>(half), 0, 0};
    right[6] =
        static_cast<double>(std::max_element(p.data.begin() + 6 * cols, p.data.end()) - p.data.begin() - 6 * cols);
    auto one_hot = reference::zeros({7, cols}), above = one_hot;
    for (std::int64_t r = 0; r < 7; ++r) one_hot[r * cols + static_cast<std::int64_t>(right[r])] = 1;
    for (std::int64_t i = 0; i < p.size(); ++i) above[i] = p[i] > 0.25 ? 1 : 0;
    const Tensor hits{{7}, std::vector<double>(7, 1)};
    const auto expect = [&](const std::string& kind, const Tensor& target) {
      expect_kernel({.name = "match_rows",
                     .inputs = {p, target},
                     .expected = {hits},
                     .attributes = {{"kind", kind}, {"threshold", 0.25}},
                     .tolerance = 0});
    };
    expect("sparse", Tensor{{7}, right, DType::kI32});
    expect("categorical", one_hot);
    expect("binary", above);
    auto wrong = right;
    for (auto& label : wrong) label = label == 0 ? 1 : 0;
    expect_kernel({.name = "match_rows",
                   .inputs = {p, Tensor{{7}, wrong}},
                   .expected = {reference::zeros({7})},
                   .attributes = {{"kind", std::string("sparse")}}});
  }
}

TEST(MetricState, AddsRealRowsWithTheirWeights) {
  const auto v = random({5}, 1), w = random({5}, 2, 0.5, 1.5);
  for (const bool weights : {false, true}) {
    Tensor state{{2}, {10, 20}, DType::kF64};
    KernelCase c{.name = "metric_accumulate",
                 .inputs = {Operand(v, {10}, {5})},
                 .attributes = {},
                 .params = {.real_rows = 8},
                 .tolerance = 1e-12,
                 .before = {state}};
    for (std::int64_t r = 0; r < 3; ++r) {
      state[0] += (weights ? w[r] : 1) * v[r];
      state[1] += weights ? w[r] : 1;
    }
    if (weights) c.inputs.emplace_back(Operand(w, {10}, {5}));
    c.expected = {state};
    expect_kernel(c);
  }
  const auto positions = random({4, 3}, 3);
  Tensor state{{2}, {0, 6}, DType::kF64};
  for (std::int64_t i = 0; i < 6; ++i) state[0] += positions[i];
  expect_kernel({.name = "metric_accumulate",
                 .inputs = {positions},
                 .expected = {state},
                 .params = {.real_rows = 2},
                 .tolerance = 1e-12,
                 .before = {Tensor{{2}, {0, 0}, DType::kF64}}});
}

}  // namespace
}  // namespace tessera::device::test
