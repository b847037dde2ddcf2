// Reductions and kernels that work row by row: softmax, layer normalisation.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "device/harness.h"
#include "reference/ops.h"

namespace tessera::device::test {
namespace {

using reference::numeric_gradient;
using reference::random;
using Dims = std::vector<std::int64_t>;

TEST(ReduceSum, EqualsTheOracleForAllChoicesOfDimensions) {
  const Shape shape{5, 3, 1, 17};
  for (int mask = 0; mask < 16; ++mask) {
    Dims dims;
    for (int d = 0; d < 4; ++d)
      if ((mask >> d & 1) != 0) dims.push_back(d);
    const auto x = random(shape, 1);
    expect_kernel({.name = "reduce_sum",
                   .inputs = {x},
                   .expected = {reference::reduce_sum(x, dims, 0.5)},
                   .attributes = {{"dims", dims}, {"scale", 0.5}},
                   .scale = 10});
  }
}

TEST(ReduceSum, OfManyElementsDependsOnNoThread) {
  for (const auto& [shape, dims] : {std::pair{Shape{200'000}, Dims{0}},
                                    {Shape{9000, 10}, Dims{0}},
                                    {Shape{300, 700}, Dims{0}},
                                    {Shape{40, 5000}, Dims{1}},
                                    {Shape{100, 1028}, Dims{0}},
                                    {Shape{3, 300, 130}, Dims{1}},
                                    {Shape{7, 50, 64}, Dims{0, 2}},
                                    {Shape{7, 30, 65}, Dims{0, 2}},
                                    {Shape{2, 20'000}, Dims{1}},
                                    {Shape{3, 5000, 8}, Dims{0, 1}},
                                    {Shape{3, 5000, 8}, Dims{1}}}) {
    const auto x = random(shape, 2);
    expect_kernel({.name = "reduce_sum",
                   .inputs = {x},
                   .expected = {reference::reduce_sum(x, dims)},
                   .attributes = {{"dims", dims}},
                   .scale = 50});
  }
}

TEST(ReduceSum, AccumulatesFromTheSecondMicroBatchOn) {
  for (const std::int64_t micro_batch : {0, 1})
    for (const auto& dims : {Dims{0}, Dims{1}, Dims{0, 1}}) {
      const auto x = random({6, 20}, 3);
      auto y = reference::reduce_sum(x, dims);
      const auto before = random(y.shape, 4);
      for (std::int64_t i = 0; micro_batch > 0 && i < y.size(); ++i) y[i] += before[i];
      expect_kernel({.name = "reduce_sum",
                     .inputs = {x},
                     .expected = {y},
                     .attributes = {{"dims", dims}, {"accumulate", true}},
                     .params = {.micro_batch = micro_batch},
                     .scale = 10,
                     .before = {before}});
    }
}

TEST(ReduceSum, MayKeepItsDimensionsWithSizeOne) {
  const auto x = random({4, 5, 6}, 1);
  expect_kernel({.name = "reduce_sum",
                 .inputs = {x},
                 .expected = {reference::reshaped(reference::reduce_sum(x, {0, 1}), {1, 1, 6})},
                 .attributes = {{"dims", Dims{0, 1}}},
                 .scale = 10});
}

TEST(ReduceSum, OfNothingIsZero) {
  expect_kernel({.name = "reduce_sum",
                 .inputs = {random({0, 3}, 1)},
                 .expected = {reference::zeros({3})},
                 .attributes = {{"dims", Dims{0}}}});
  expect_kernel({.name = "reduce_sum",
                 .inputs = {random({3, 0}, 1)},
                 .expected = {reference::zeros({3})},
                 .attributes = {{"dims", Dims{1}}}});
}

TEST(AddN, EqualsTheOracleAlsoInPlace) {
  for (const auto n : {1, 17, 9000})
    for (const int count : {1, 2, 3, 5}) {
      KernelCase c{.name = "add_n", .expected = {reference::zeros({n})}, .in_place = {{0, 0}}};
      for (int k = 0; k < count; ++k) {
        c.inputs.emplace_back(random({n}, 10 + k));
        for (std::int64_t i = 0; i < n; ++i) c.expected[0].tensor[i] += c.inputs[k].tensor[i];
      }
      expect_kernel(c);
    }
}

TEST(AddN, AddsDoublesToo) {
  expect_kernel({.name = "add_n",
                 .inputs = {Tensor{{2}, {1, 2}, DType::kF64}, Tensor{{2}, {0x1p-40, 3}, DType::kF64}},
                 .expected = {Tensor{{2}, {1 + 0x1p-40, 5}, DType::kF64}},
                 .tolerance = 0});
}

TEST(SumSquares, IsExactInDouble) {
  for (const auto n : {0, 1, 17, 100'000}) {
    const auto x = random({n}, 5);
    auto y = reference::zeros({}, DType::kF64);
    for (const auto v : x.data) y[0] += v * v;
    expect_kernel({.name = "sum_squares", .inputs = {x}, .expected = {y}, .tolerance = 1e-11});
  }
}

TEST(Softmax, AndItsPartsEqualTheOracle) {
  for (const auto cols : {1, 3, 8, 17, 100, 4100, 9001})
    for (const bool log : {false, true}) {
      const auto x = random({2, 3, cols}, 1, -8, 8);
      const auto y = reference::softmax(x, log);
      const Attributes attributes{{"log", log}};
      const double scale = log ? 8 : 1e-3;
      expect_kernel({.name = "softmax",
                     .inputs = {x},
                     .expected = {y},
                     .attributes = attributes,
                     .scale = scale,
                     .in_place = {{0, 0}}});
      const auto m = reference::row_max(x), s = reference::row_sum_exp(x, m);
      expect_kernel({.name = "row_max", .inputs = {x}, .expected = {m}});
      expect_kernel({.name = "row_sum_exp", .inputs = {x, m}, .expected = {s}});
      expect_kernel({.name = "softmax_finish",
                     .inputs = {x, m, s},
                     .expected = {y},
                     .attributes = attributes,
                     .scale = scale,
                     .in_place = {{0, 0}}});
    }
}

TEST(Softmax, GradientEqualsFiniteDifferences) {
  for (const auto cols : {1, 3, 17, 100})
    for (const bool log : {false, true}) {
      const auto x = random({3, cols}, 2, -3, 3), dy = random({3, cols}, 3);
      const auto y = reference::softmax(x, log);
      const auto dx = numeric_gradient([&](const auto& in) { return reference::softmax(in[0], log); }, {x}, 0, dy);
      auto dot = reference::zeros({3});
      for (std::int64_t i = 0; i < x.size(); ++i) dot[i / cols] += (log ? 1 : y[i]) * dy[i];
      const Attributes attributes{{"log", log}};
      expect_kernel({.name = "softmax_backward",
                     .inputs = {y, dy},
                     .expected = {dx},
                     .attributes = attributes,
                     .tolerance = 1e-5,
                     .in_place = {{0, 1}}});
      expect_kernel({.name = "row_dot", .inputs = {y, dy}, .expected = {dot}, .attributes = attributes, .scale = 10});
      expect_kernel({.name = "softmax_backward_finish",
                     .inputs = {y, dy, dot},
                     .expected = {dx},
                     .attributes = attributes,
                     .tolerance = 1e-5});
    }
}

TEST(Softmax, OfLargeLogitsIsExact) {
  const Tensor x{{1, 3}, {1000, 999, 0}};
  expect_kernel(
      {.name = "softmax", .inputs = {x}, .expected = {reference::softmax(x)}, .attributes = {{"log", false}}});
  expect_kernel({.name = "softmax",
                 .inputs = {x},
                 .expected = {reference::softmax(x, true)},
                 .attributes = {{"log", true}},
                 .tolerance = 1e-7});
}

/// Below, at and above what 8 lanes, a warp and a block of a GPU keep in hand, with and without whole groups of four.
TEST(Softmax, OfRowsOfAllWidthsEqualsTheOracle) {
  std::vector<std::int64_t> widths{31, 32, 33, 255, 256, 257, 1023, 1024, 1028};
  if (on_gpu()) widths.insert(widths.end(), {1025, 2048, 2052, 8191, 8192, 8196});
  for (const auto cols : widths)
    for (const bool log : {false, true}) {
      const std::int64_t rows = cols < 100 ? 33 : cols < 1025 ? 9 : 2;
      const auto x = random({rows, cols}, 1, -8, 8), dy = random({rows, cols}, 2);
      const auto y = reference::softmax(x, log);
      auto dx = x;
      for (std::int64_t r = 0; r < rows; ++r) {
        double dot = 0;
        for (auto i = r * cols; i < (r + 1) * cols; ++i) dot += (log ? 1 : y[i]) * dy[i];
        for (auto i = r * cols; i < (r + 1) * cols; ++i)
          dx[i] = log ? dy[i] - std::exp(y[i]) * dot : y[i] * (dy[i] - dot);
      }
      const Attributes attributes{{"log", log}};
      expect_kernel(
          {.name = "softmax", .inputs = {x}, .expected = {y}, .attributes = attributes, .scale = log ? 8 : 1e-3});
      expect_kernel({.name = "softmax_backward",
                     .inputs = {y, dy},
                     .expected = {dx},
                     .attributes = attributes,
                     .tolerance = 5e-6,
                     .shift = cols == 1024 ? 1 : 0});
    }
}

TEST(Softmax, OfNaNAndInfinitiesIsWhatItsFormulaGives) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t cols : {5, 300, 9001}) {
    auto x = random({6, cols}, 1);
    x[cols - 1] = kNaN;
    x[cols + 2] = kInf;
    x[2 * cols + 3] = -kInf;
    for (std::int64_t c = 0; c < cols; ++c) x[3 * cols + c] = -kInf;
    for (std::int64_t c = 1; c < cols; ++c) x[4 * cols + c] = -kInf;
    auto y = reference::softmax(x), m = reference::row_max(x);
    for (const std::int64_t r : {0, 1, 3})
      for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = kNaN;
    m[0] = kNaN;
    expect_kernel({.name = "softmax", .inputs = {x}, .expected = {y}});
    expect_kernel({.name = "row_max", .inputs = {x}, .expected = {m}});
  }
}

struct NormCase {
  Shape shape;
  std::int64_t axes;
};
const std::vector<NormCase> kNorms{{{1, 1}, 1},   {{3, 8}, 1},    {{2, 5, 17}, 1},
                                   {{70, 33}, 1}, {{4, 3, 7}, 2}, {{40, 300}, 1}};
// Around the sizes that a thread, a warp and a block hold.
const std::vector<NormCase> kLongNorms{{{70, 32}, 1},     {{130, 31}, 1}, {{40, 64}, 1},  {{9, 256}, 1},
                                       {{9, 257}, 1},     {{40, 512}, 1}, {{33, 768}, 1}, {{9, 1024}, 1},
                                       {{9, 1025}, 1},    {{5, 2048}, 1}, {{5, 2052}, 1}, {{5, 4100}, 1},
                                       {{5, 8, 1024}, 2}, {{5, 8193}, 1}, {{5, 8200}, 1}};

Shape parameters_of(const NormCase& c) { return {c.shape.end() - c.axes, c.shape.end()}; }

TEST(LayerNorm, EqualsTheOracleWithAndWithoutScaleAndCenter) {
  auto norms = kNorms;
  norms.insert(norms.end(), kLongNorms.begin(), kLongNorms.end());
  for (const auto& n : norms)
    for (const bool scale : {false, true})
      for (const bool center : {false, true}) {
        auto x = random(n.shape, 1);
        for (auto& v : x.data) v = static_cast<float>(v + 10);  // a mean that would cancel in float
        const auto gamma = random(parameters_of(n), 2, 0.5, 1.5), beta = random(parameters_of(n), 3);
        const auto norm = reference::layer_norm(x, scale ? &gamma : nullptr, center ? &beta : nullptr, 1e-3, n.axes);
        KernelCase c{.name = "layer_norm",
                     .inputs = {x},
                     .expected = {norm.y, norm.mean, norm.rstd},
                     .attributes = {{"epsilon", 1e-3}, {"scale", scale}, {"center", center}, {"axes", n.axes}},
                     .tolerance = 1e-5};
        if (scale) c.inputs.emplace_back(gamma);
        if (center) c.inputs.emplace_back(beta);
        expect_kernel(c);
        // In two steps, as where the columns are split.
        auto sums = reference::zeros(norm.mean.shape, DType::kF64);
        sums.shape.push_back(2);
        sums.data.assign(2 * norm.mean.data.size(), 0);
        const auto cols = elements(parameters_of(n));
        for (std::int64_t i = 0; i < x.size(); ++i) {
          sums[2 * (i / cols)] += x[i];
          sums[2 * (i / cols) + 1] += x[i] * x[i];
        }
        expect_kernel({.name = "row_moments",
                       .inputs = {x},
                       .expected = {sums},
                       .attributes = {{"axes", n.axes}},
                       .tolerance = 1e-13});
        c.name = "layer_norm_finish";
        c.inputs.insert(c.inputs.begin() + 1, sums);
        c.attributes.set("cols", cols);
        expect_kernel(c);
      }
}

TEST(LayerNorm, LosesNoDigitsFarFromZero) {
  for (const std::int64_t cols : {250, 1024, 8192, 8200}) {
    auto x = random({3, cols}, 1);
    for (std::int64_t i = 0; i < x.size(); i += 2) {  // a mean and deviations that floats hold
      const auto d = std::round(x[i] * 2048) / 2048;
      x[i] = 4000 + d;
      x[i + 1] = 4000 - d;
    }
    const auto norm = reference::layer_norm(x, nullptr, nullptr, 1e-3, 1);
    expect_kernel({.name = "layer_norm",
                   .inputs = {x},
                   .expected = {norm.y, norm.mean, norm.rstd},
                   .attributes = {{"epsilon", 1e-3}}});
  }
}

TEST(LayerNorm, GradientsOfLongRowsFollowTheFormula) {
  for (const auto& n : kLongNorms) {
    const auto cols = elements(parameters_of(n)), rows = elements(n.shape) / cols;
    const auto x = random(n.shape, 4), dy = random(n.shape, 5), gamma = random(parameters_of(n), 6, 0.5, 1.5);
    const auto norm = reference::layer_norm(x, &gamma, nullptr, 1e-3, n.axes);
    auto dx = reference::zeros(n.shape), dgamma = reference::zeros(gamma.shape), dbeta = reference::zeros(gamma.shape);
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto xhat = [&](std::int64_t c) { return (x[r * cols + c] - norm.mean[r]) * norm.rstd[r]; };
      double g = 0, g_xhat = 0;
      for (std::int64_t c = 0; c < cols; ++c) {
        g += gamma[c] * dy[r * cols + c];
        g_xhat += gamma[c] * dy[r * cols + c] * xhat(c);
        dgamma[c] += dy[r * cols + c] * xhat(c);
        dbeta[c] += dy[r * cols + c];
      }
      const auto n_cols = static_cast<double>(cols);
      for (std::int64_t c = 0; c < cols; ++c)
        dx[r * cols + c] = norm.rstd[r] * (gamma[c] * dy[r * cols + c] - g / n_cols - xhat(c) * g_xhat / n_cols);
    }
    for (const std::string needs : {"xgb", "x", "gb"}) {
      KernelCase c{.name = "layer_norm_backward",
                   .inputs = {dy, x, norm.mean, norm.rstd, gamma},
                   .attributes = {{"scale", true}, {"center", true}, {"axes", n.axes}, {"needs", needs}},
                   .tolerance = 2e-6,
                   .scale = 5};
      for (const char letter : needs) c.expected.emplace_back(letter == 'x' ? dx : letter == 'g' ? dgamma : dbeta);
      expect_kernel(c);
    }
  }
}

TEST(LayerNorm, GradientsOfMoreColumnsThanAGridHasThreads) {
  const std::int64_t cols = 131072 + 33;
  const auto x = random({1, cols}, 4), dy = random({1, cols}, 5);
  auto dgamma = reference::zeros({cols}), dbeta = reference::zeros({cols});
  for (std::int64_t c = 0; c < cols; ++c) {
    dgamma[c] = dy[c] * x[c];
    dbeta[c] = dy[c];
  }
  expect_kernel({.name = "layer_norm_backward",
                 .inputs = {dy, x, reference::zeros({1}), random({1}, 6, 1, 1)},
                 .expected = {dgamma, dbeta},
                 .attributes = {{"scale", false}, {"center", true}, {"needs", std::string("gb")}}});
}

TEST(LayerNorm, GradientsOfNoRowsAreZero) {
  const auto none = reference::zeros({0, 8});
  expect_kernel({.name = "layer_norm_backward",
                 .inputs = {none, none, reference::zeros({0}), reference::zeros({0})},
                 .expected = {none, reference::zeros({8}), reference::zeros({8})},
                 .attributes = {{"scale", false}, {"center", true}, {"needs", std::string("xgb")}}});
}

TEST(LayerNorm, GradientsEqualFiniteDifferences) {
  for (const auto& n : kNorms) {
    if (elements(n.shape) > 3000) continue;
    for (const bool scale : {false, true}) {
      const auto x = random(n.shape, 4), dy = random(n.shape, 5), gamma = random(parameters_of(n), 6, 0.5, 1.5),
                 beta = random(parameters_of(n), 7);
      const auto forward = [&](const auto& in) {
        return reference::layer_norm(in[0], scale ? &in[1] : nullptr, &in[2], 1e-3, n.axes).y;
      };
      const auto norm = reference::layer_norm(x, scale ? &gamma : nullptr, &beta, 1e-3, n.axes);
      const std::vector<Tensor> in{x, gamma, beta};
      const auto dx = numeric_gradient(forward, in, 0, dy), dgamma = numeric_gradient(forward, in, 1, dy),
                 dbeta = numeric_gradient(forward, in, 2, dy);
      for (const std::string needs : {"x", "xg", "xgb", "gb", "xb", "b"}) {
        if (!scale && needs.find('g') != std::string::npos) continue;
        for (const std::int64_t micro_batch : {0, 1}) {
          KernelCase c{.name = "layer_norm_backward",
                       .inputs = {dy, x, norm.mean, norm.rstd},
                       .attributes = {{"scale", scale},
                                      {"center", true},
                                      {"axes", n.axes},
                                      {"needs", needs},
                                      {"accumulate", true}},
                       .params = {.micro_batch = micro_batch},
                       .tolerance = 2e-5,
                       .scale = 5};
          if (scale) c.inputs.emplace_back(gamma);
          for (const char letter : needs) {
            auto want = letter == 'x' ? dx : letter == 'g' ? dgamma : dbeta;
            c.before.push_back(random(want.shape, 8));
            for (std::int64_t i = 0; letter != 'x' && micro_batch > 0 && i < want.size(); ++i)
              want[i] += c.before.back()[i];
            c.expected.emplace_back(want);
          }
          expect_kernel(c);
          if (needs != "xgb" && needs != "xb") continue;
          auto sums = reference::zeros(norm.mean.shape, DType::kF64);
          sums.shape.push_back(2);
          sums.data.assign(2 * norm.mean.data.size(), 0);
          const auto cols = elements(parameters_of(n));
          for (std::int64_t i = 0; i < x.size(); ++i) {
            const auto r = i / cols;
            const auto g = dy[i] * (scale ? gamma[i % cols] : 1);
            sums[2 * r] += g;
            sums[2 * r + 1] += g * (x[i] - norm.mean[r]) * norm.rstd[r];
          }
          auto s = c;
          s.name = "layer_norm_backward_sums";
          s.expected = {sums};
          s.before = {};
          expect_kernel(s);
          c.name = "layer_norm_backward_finish";
          c.inputs.insert(c.inputs.begin() + 4, sums);
          c.attributes.set("cols", cols);
          expect_kernel(c);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::device::test
