#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/error.h"
#include "device/harness.h"
#include "reference/ops.h"

namespace tessera::device::test {
namespace {

using reference::LossOptions;
using reference::numeric_gradient;
using reference::random;
using reference::random_integers;

struct RowLossCase {
  std::string loss;
  LossOptions options = {};
};
const std::vector<RowLossCase> kRowLosses{{"mse"},
                                          {"mae"},
                                          {"huber", {.delta = 0.5}},
                                          {"binary_crossentropy", {.logits = true}},
                                          {"binary_crossentropy", {.smoothing = 0.1, .logits = true}},
                                          {"binary_crossentropy"},
                                          {"binary_crossentropy", {.smoothing = 0.1}}};

TEST(RowLoss, AndItsGradientEqualTheOracle) {
  for (const auto& [loss, o] : kRowLosses)
    for (const auto cols : odd_sizes()) {
      const bool probabilities = loss == "binary_crossentropy" && !o.logits;
      const auto p = random({2, 3, cols}, 1, probabilities ? 0.05 : -2, probabilities ? 0.95 : 2);
      const auto y = random({2, 3, cols}, 2, 0, 1), dl = random({2, 3}, 3);
      const Attributes attributes{{"loss", loss},
                                  {"denominator", cols},
                                  {"delta", o.delta},
                                  {"from_logits", o.logits},
                                  {"label_smoothing", o.smoothing}};
      expect_kernel({.name = "row_loss",
                     .inputs = {p, y},
                     .expected = {reference::row_loss(loss, p, y, o)},
                     .attributes = attributes});
      const auto dp =
          numeric_gradient([&](const auto& in) { return reference::row_loss(loss, in[0], y, o); }, {p}, 0, dl);
      expect_kernel({.name = "row_loss_backward",
                     .inputs = {p, y, dl},
                     .expected = {dp},
                     .attributes = attributes,
                     .tolerance = 1e-5,
                     .scale = 0.1});
    }
}

TEST(RowLoss, OfProbabilitiesAtTheEndsIsClippedAndPassesNoGradient) {
  const Tensor p{{2, 2}, {0, 1, 1, 0}}, y{{2, 2}, {0, 0, 1, 1}}, dl{{2}, {1, 1}};
  const Attributes attributes{{"loss", std::string("binary_crossentropy")}, {"denominator", std::int64_t{2}}};
  const auto most = static_cast<double>(1 - 1e-7F);  // what 1 - 1e-7 is in float
  const double wrong = -std::log(1 - most) / 2, right = -std::log(most) / 2;
  expect_kernel({.name = "row_loss",
                 .inputs = {p, y},
                 .expected = {Tensor{{2}, {wrong + right, right - std::log(1e-7) / 2}}},
                 .attributes = attributes});
  expect_kernel({.name = "row_loss_backward",
                 .inputs = {p, y, dl},
                 .expected = {reference::zeros({2, 2})},
                 .attributes = attributes});
}

TEST(RowLoss, OfASplitDimensionIsItsPartOfTheMean) {
  for (const std::int64_t cols : {6, 1025, 1028}) {
    const auto p = random({4, cols}, 1), y = random({4, cols}, 2);
    auto l = reference::row_loss("mse", p, y);
    for (auto& v : l.data) v *= 0.25;
    expect_kernel({.name = "row_loss",
                   .inputs = {p, y},
                   .expected = {l},
                   .attributes = {{"loss", std::string("mse")}, {"denominator", 4 * cols}}});
  }
}

TEST(CategoricalCrossentropy, AndItsGradientEqualTheOracle) {
  for (const auto cols : odd_sizes())
    for (const bool logits : {false, true})
      for (const double smoothing : {0.0, 0.1}) {
        const LossOptions o{.smoothing = smoothing, .logits = logits};
        const auto p = random({5, cols}, 1, logits ? -3 : 0.1, logits ? 3 : 1), dl = random({5}, 3);
        auto y = random({5, cols}, 2, 0, 1);
        const Attributes attributes{{"from_logits", logits}, {"label_smoothing", smoothing}};
        expect_kernel({.name = "categorical_crossentropy",
                       .inputs = {p, y},
                       .expected = {reference::categorical_crossentropy(p, y, o)},
                       .attributes = attributes,
                       .scale = 30});
        if (cols == 1 && !logits) continue;  // p / p is clipped: no gradient, where differences see the clip's edge
        const auto dp = numeric_gradient(
            [&](const auto& in) { return reference::categorical_crossentropy(in[0], y, o); }, {p}, 0, dl);
        expect_kernel({.name = "categorical_crossentropy_backward",
                       .inputs = {p, y, dl},
                       .expected = {dp},
                       .attributes = attributes,
                       .tolerance = 1e-5,
                       .scale = 5});
      }
}

Tensor log_sums(const Tensor& p, bool logits) {
  auto lse = reference::zeros({p.rows()});
  for (std::int64_t r = 0; r < p.rows(); ++r) {
    for (std::int64_t c = 0; c < p.cols(); ++c) lse[r] += logits ? std::exp(p[r * p.cols() + c]) : p[r * p.cols() + c];
    lse[r] = std::log(lse[r]);
  }
  return lse;
}

TEST(SparseCrossentropy, AndItsGradientEqualTheOracle) {
  for (const std::int64_t cols : {2, 3, 8, 17, 100})
    for (const bool logits : {false, true})
      for (const bool ignores : {false, true}) {
        LossOptions o{.logits = logits};
        Attributes attributes{{"from_logits", logits}};
        if (ignores) o.ignore = 1;
        if (ignores) attributes.set("ignore_class", std::int64_t{1});
        const auto p = random({12, cols}, 1, logits ? -3 : 0.1, logits ? 3 : 1), dl = random({12}, 3);
        const auto labels = random_integers({12}, 2, 0, cols);
        const auto lse = log_sums(p, logits);
        expect_kernel({.name = "sparse_crossentropy",
                       .inputs = {p, labels},
                       .expected = {reference::sparse_crossentropy(p, labels, o), lse},
                       .attributes = attributes});
        const auto dp = numeric_gradient(
            [&](const auto& in) { return reference::sparse_crossentropy(in[0], labels, o); }, {p}, 0, dl);
        expect_kernel({.name = "sparse_crossentropy_backward",
                       .inputs = {p, labels, lse, dl},
                       .expected = {dp},
                       .attributes = attributes,
                       .tolerance = 1e-5});
      }
}

/// Wider than a warp keeps, and than a block does, on a GPU.
TEST(Crossentropies, OfWideRowsAndTheirGradientsEqualTheOracle) {
  std::vector<std::int64_t> widths{33, 1025};
  if (on_gpu()) widths.insert(widths.end(), {257, 2052, 8196});
  for (const auto cols : widths)
    for (const bool logits : {false, true}) {
      const Attributes attributes{{"from_logits", logits}};
      const LossOptions o{.logits = logits};
      auto x = random({3, cols}, 1, logits ? -3 : 0.1, logits ? 3 : 1);
      if (logits)
        for (auto i = 2 * cols; i < 3 * cols; ++i) x[i] = static_cast<float>(x[i] + 1000);  // far larger than its loss
      const auto dl = random({3}, 3), labels = random_integers({3}, 2, 0, cols);
      auto one_hot = reference::zeros({3, cols}), dx = one_hot, lse = reference::zeros({3});
      for (std::int64_t r = 0; r < 3; ++r) {
        const auto label = static_cast<std::int64_t>(labels[r]);
        one_hot[r * cols + label] = 1;
        double sum = 0;
        const auto largest = logits ? x[r * cols + label] : 0.0;
        for (auto i = r * cols; i < (r + 1) * cols; ++i) sum += logits ? std::exp(x[i] - largest) : x[i];
        lse[r] = largest + std::log(sum);
        for (auto i = r * cols; i < (r + 1) * cols; ++i) {
          dx[i] = logits ? dl[r] * std::exp(x[i] - largest) / sum : dl[r] / sum;
          if (i == r * cols + label) dx[i] -= dl[r] * (logits ? 1 : 1 / x[i]);
        }
      }
      const auto l = reference::sparse_crossentropy(x, labels, o);
      expect_kernel(
          {.name = "sparse_crossentropy", .inputs = {x, labels}, .expected = {l, lse}, .attributes = attributes});
      expect_kernel(
          {.name = "categorical_crossentropy", .inputs = {x, one_hot}, .expected = {l}, .attributes = attributes});
      expect_kernel({.name = "categorical_crossentropy_backward",
                     .inputs = {x, one_hot, dl},
                     .expected = {dx},
                     .attributes = attributes,
                     .tolerance = 5e-6});
      expect_kernel({.name = "sparse_crossentropy_backward",
                     .inputs = {x, labels, lse, dl},
                     .expected = {dx},
                     .attributes = attributes,
                     .tolerance = 1e-4});  // the log of the sum is kept in float
    }
}

TEST(SparseCrossentropy, OfSplitClassesEqualsTheWhole) {
  const auto p = random({6, 20}, 1, -3, 3), dl = random({6}, 3);
  const auto labels = random_integers({6}, 2, 0, 20);
  const auto m = reference::row_max(p), lse = log_sums(p, true);
  auto total = reference::zeros({6, 2});
  const LossOptions o{.logits = true};
  const auto dp =
      numeric_gradient([&](const auto& in) { return reference::sparse_crossentropy(in[0], labels, o); }, {p}, 0, dl);
  for (const auto& [start, size] : {std::pair{0, 7}, {7, 13}}) {
    const auto part = part_of(p, {0, start}, {6, size});
    auto sp = reference::zeros({6, 2});
    for (std::int64_t r = 0; r < 6; ++r)
      for (std::int64_t c = 0; c < size; ++c) {
        sp[2 * r] += std::exp(part.tensor[r * size + c] - m[r]);
        if (start + c == labels[r]) sp[2 * r + 1] = part.tensor[r * size + c];
      }
    expect_kernel({.name = "row_sum_exp_picked", .inputs = {part, m, labels}, .expected = {sp}});
    for (std::int64_t i = 0; i < 12; ++i) total[i] += sp[i];
    expect_kernel({.name = "sparse_crossentropy_backward",
                   .inputs = {part, labels, lse, dl},
                   .expected = {part_of(dp, {0, start}, {6, size})},
                   .attributes = {{"from_logits", true}},
                   .tolerance = 1e-5});
  }
  expect_kernel({.name = "sparse_crossentropy_finish",
                 .inputs = {m, total, labels},
                 .expected = {reference::sparse_crossentropy(p, labels, o), lse},
                 .tolerance = 5e-6});
}

TEST(SparseCrossentropy, LabelOutOfRangeIsADataError) {
  for (const double label : {-1.0, 3.0}) {
    const Tensor labels{{2}, {0, label}, DType::kI32};
    KernelCase c{.name = "sparse_crossentropy",
                 .inputs = {random({2, 3}, 1), labels},
                 .expected = {reference::zeros({2}), reference::zeros({2})},
                 .attributes = {{"from_logits", true}}};
    try {
      run_kernel(*new_device(), c);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kData);
      const std::string sentence(e.what());
      EXPECT_NE(sentence.find("label " + std::to_string(static_cast<int>(label)) + " in row 1 "), std::string::npos)
          << sentence;
      EXPECT_TRUE(sentence.ends_with("none of the 3 classes")) << sentence;
    }
    c.attributes.set("ignore_class", static_cast<std::int64_t>(label));
    EXPECT_NO_THROW(run_kernel(*new_device(), c));
  }
}

/// Real rows of a part of the batch: 2 micro-batches of 10 global rows, this rank has rows 4 .. 9, 16 are real.
struct Ragged {
  std::int64_t micro_batch, real_rows;
  std::int64_t expected;
};
const std::vector<Ragged> kRagged{{0, 20, 6}, {1, 20, 6}, {1, 16, 2}, {1, 14, 0}, {1, 3, 0}, {0, 6, 2}};

TEST(WeightedSum, AndItsGradientLeavePaddedRowsOut) {
  for (const auto& ragged : kRagged)
    for (const Shape& tail : {Shape{}, Shape{7}, Shape{3, 50}})
      for (const int weight_dims : {0, 1, 2})
        for (const std::string denominator : {"rows", "input", "one"}) {
          Shape shape{6}, global{10}, start{4};
          for (const auto n : tail) shape.push_back(n), global.push_back(n), start.push_back(0);
          if (weight_dims > static_cast<int>(shape.size())) continue;
          const auto l = random(shape, 1), w = random(Shape(shape.begin(), shape.begin() + weight_dims), 2, 0.5, 1.5),
                     d = random({}, 3);
          const auto row = elements(tail), each = weight_dims == 0 ? 1 : l.size() / w.size();
          const double positions = static_cast<double>(row);
          const double divisor = denominator == "rows"    ? static_cast<double>(ragged.real_rows) * positions
                                 : denominator == "input" ? 37
                                                          : 1;
          auto sum = reference::zeros({});
          auto dl = reference::zeros(shape);
          for (std::int64_t i = 0; i < ragged.expected * row; ++i) {
            const auto weight = weight_dims == 0 ? 1 : w[i / each];
            sum[0] += l[i] * weight / divisor;
            dl[i] = d[0] * weight / divisor;
          }
          KernelCase c{.name = "weighted_sum",
                       .inputs = {Operand(l, global, start)},
                       .expected = {sum},
                       .attributes = {{"weights", weight_dims > 0}, {"denominator", denominator}},
                       .params = {.micro_batch = ragged.micro_batch, .real_rows = ragged.real_rows},
                       .tolerance = 1e-5,
                       .scale = 5};
          std::vector<Operand> more;
          if (weight_dims > 0) more.emplace_back(w);
          if (denominator == "input") more.emplace_back(Tensor{{}, {37}, DType::kF64});
          c.inputs.insert(c.inputs.end(), more.begin(), more.end());
          expect_kernel(c);
          c.name = "weighted_sum_backward";
          c.inputs = {d};
          c.inputs.insert(c.inputs.end(), more.begin(), more.end());
          c.expected = {Operand(dl, global, start)};
          expect_kernel(c);
        }
}

/// More than one block of a GPU adds.
TEST(RealRows, OfManyElementsAreSummed) {
  const Shape shape{9, 3000}, global{20, 3000}, start{9, 0};
  const auto l = random(shape, 1), w = random(shape, 2, 0.5, 1.5), labels = random_integers(shape, 3, 0, 4);
  for (const std::int64_t real : {0, 1, 8, 9}) {
    double sum = 0, weights = 0, counted = 0, weights_counted = 0;
    for (std::int64_t i = 0; i < real * 3000; ++i) {
      sum += l[i] * w[i];
      weights += w[i];
      counted += labels[i] == 2 ? 0 : 1;
      weights_counted += labels[i] == 2 ? 0 : w[i];
    }
    const auto expect = [&](const std::string& name, const std::vector<Operand>& inputs, const Tensor& expected,
                            const Attributes& attributes) {
      KernelCase c{.name = name,
                   .inputs = inputs,
                   .expected = {expected},
                   .attributes = attributes,
                   .params = {.real_rows = 9 + real},
                   .scale = 10,
                   .before = {reference::zeros(expected.shape, expected.dtype)}};
      for (auto& o : c.inputs) o.global = global, o.start = start;
      expect_kernel(c);
    };
    const Attributes ignore{{"ignore_class", std::int64_t{2}}};
    expect("weighted_sum", {l, w}, Tensor{{}, {sum}}, {{"weights", true}});
    expect("metric_accumulate", {l, w}, Tensor{{2}, {sum, weights}, DType::kF64}, {});
    expect("count_valid", {labels}, Tensor{{}, {counted}, DType::kF64}, ignore);
    expect("sum_weights", {w}, Tensor{{}, {weights}, DType::kF64}, {});
    expect("sum_weights", {w, labels}, Tensor{{}, {weights_counted}, DType::kF64}, ignore);
  }
}

TEST(WeightedSum, OfNaNInAPaddedRowIsFinite) {
  auto l = reference::zeros({4});
  l[3] = std::numeric_limits<double>::quiet_NaN();
  expect_kernel({.name = "weighted_sum",
                 .inputs = {l},
                 .expected = {reference::zeros({})},
                 .attributes = {{"denominator", std::string("rows")}},
                 .params = {.real_rows = 3}});
}

TEST(CountValid, CountsRealRowsOfTheMicroBatch) {
  const Tensor labels{{6}, {1, 2, 0, 2, 1, 2}, DType::kI32};
  const auto count = [&](std::int64_t micro_batch, std::int64_t real, const Attributes& attributes, double expected) {
    expect_kernel({.name = "count_valid",
                   .inputs = {Operand(labels, {12}, {6})},
                   .expected = {Tensor{{}, {expected}, DType::kF64}},
                   .attributes = attributes,
                   .params = {.micro_batch = micro_batch, .real_rows = real}});
  };
  const Attributes ignore{{"ignore_class", std::int64_t{2}}};
  count(0, 12, {}, 6);
  count(0, 9, {}, 3);
  count(0, 9, ignore, 2);
  count(1, 24, {}, 6);
  count(1, 22, ignore, 2);
  count(1, 13, {}, 0);
}

TEST(SumWeights, LeavesPaddedRowsOut) {
  const auto w = random({5, 3}, 1);
  double sum = 0;
  for (std::int64_t i = 0; i < 9; ++i) sum += w[i];
  expect_kernel(
      {.name = "sum_weights", .inputs = {w}, .expected = {Tensor{{}, {sum}, DType::kF64}}, .params = {.real_rows = 3}});
}

TEST(SumWeights, LeavesIgnoredLabelsOut) {
  const auto w = random({4}, 1);
  const Tensor labels{{4}, {2, 0, 2, 1}, DType::kI32};
  expect_kernel({.name = "sum_weights",
                 .inputs = {w, labels},
                 .expected = {Tensor{{}, {w[1] + w[3]}, DType::kF64}},
                 .attributes = {{"ignore_class", std::int64_t{2}}},
                 .params = {.real_rows = 4}});
}

}  // namespace
}  // namespace tessera::device::test
