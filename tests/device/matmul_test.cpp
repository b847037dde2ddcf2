#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "device/harness.h"
#include "reference/ops.h"

namespace tessera::device::test {
namespace {

using reference::random;

struct Size {
  std::int64_t m, n, k;
};

const std::vector<Size> kSizes{{1, 1, 1},    {2, 3, 4},     {7, 10, 33},  {16, 16, 16},
                               {33, 65, 17}, {64, 10, 100}, {1, 129, 64}, {130, 1, 40}};

KernelCase matmul_case(const Size& s, bool transpose_a, bool transpose_b) {
  const auto a = random(transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k}, 1);
  const auto b = random(transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n}, 2);
  return {.name = "matmul",
          .inputs = {a, b},
          .expected = {reference::matmul(a, b, transpose_a, transpose_b)},
          .attributes = {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}},
          .scale = static_cast<double>(s.k),
          .thread_independent = false};
}

TEST(Matmul, EqualsTheOracleForAllTranspositions) {
  for (const auto& s : kSizes)
    for (const bool a : {false, true})
      for (const bool b : {false, true}) expect_kernel(matmul_case(s, a, b));
}

TEST(Matmul, TimedShapesEqualTheOracleWithEveryEpilogue) {
  const Size s{128, 160, 160};
  for (const std::string activation : {"", "relu", "gelu", "leaky_relu"})
    for (const bool bias : {false, true})
      for (const bool residual : {false, true}) {
        auto c = matmul_case(s, false, false);
        const auto b = random({s.n}, 3), r = random({s.m, s.n}, 4);
        auto& y = c.expected[0].tensor;
        for (std::int64_t i = 0; i < y.size(); ++i) {
          if (bias) y[i] += b[i % s.n];
          if (!activation.empty()) y[i] = reference::activation(activation, y[i], 0.2);
          if (residual) y[i] += r[i];
        }
        if (bias) c.inputs.push_back(b);
        if (residual) c.inputs.push_back(r);
        c.attributes = {{"bias", bias}, {"residual", residual}, {"activation", activation}};
        if (activation == "leaky_relu") c.attributes.set("alpha", 0.2);
        expect_kernel(c);
      }
}

TEST(Matmul, EveryImplementationEqualsTheOracle) {
  for (const std::string name : {"tiled", "openblas_1x1", "openblas_1x2", "openblas_2x1", "onednn", "onednn_sgemm"})
    for (const bool transposed : {false, true}) {
      const auto device = make_cpu_device({.threads = 2});
      const std::string letters = transposed ? "tt" : "nn";
      device->set_tuning("45x70x37 " + letters + " " + name + "\n");
      auto c = matmul_case({45, 70, 37}, transposed, transposed);
      const auto bias = random({70}, 3);
      c.inputs.push_back(bias);
      c.attributes.set("bias", true);
      c.attributes.set("activation", std::string("relu"));
      auto& y = c.expected[0].tensor;
      for (std::int64_t i = 0; i < y.size(); ++i) y[i] = std::max(0.0, y[i] + bias[i % 70]);
      const auto got = run_kernel(*device, c)[0];
      for (std::int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(got[i], y[i], 2e-5) << name << " at " << i;
    }
}

TEST(Matmul, OurOwnEqualsTheOracleAcrossItsBlocks) {
  // More rows, columns and depth than are packed at a time, none of them a multiple of a tile.
  for (const Size& s : {Size{2050, 40, 20}, Size{20, 4150, 30}, Size{130, 70, 600}})
    for (const bool a : {false, true})
      for (const bool b : {false, true}) {
        const auto device = make_cpu_device({.threads = 2});
        device->set_tuning(fmt::format("{}x{}x{} {}{} tiled\n", s.m, s.n, s.k, a ? 't' : 'n', b ? 't' : 'n'));
        const auto c = matmul_case(s, a, b);
        const auto got = run_kernel(*device, c)[0];
        const auto& y = c.expected[0].tensor;
        for (std::int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(got[i], y[i], 1e-4) << "at " << i;
      }
}

TEST(Matmul, AccumulatesFromTheSecondMicroBatchOn) {
  for (const auto& s : kSizes)
    for (const std::int64_t micro_batch : {0, 1}) {
      auto c = matmul_case(s, true, false);
      c.attributes.set("accumulate", true);
      c.params.micro_batch = micro_batch;
      c.before = {random({s.m, s.n}, 5)};
      if (micro_batch > 0)
        for (std::int64_t i = 0; i < s.m * s.n; ++i) c.expected[0].tensor[i] += c.before[0][i];
      expect_kernel(c);
    }
}

TEST(Matmul, CollapsesLeadingDimensions) {
  const auto x = random({3, 5, 8}, 1), w = random({8, 6}, 2), dy = random({3, 5, 6}, 3);
  expect_kernel({.name = "matmul",
                 .inputs = {x, w},
                 .expected = {reference::reshaped(reference::matmul(reference::reshaped(x, {15, 8}), w), {3, 5, 6})},
                 .scale = 8,
                 .thread_independent = false});
  expect_kernel(
      {.name = "matmul",
       .inputs = {x, dy},
       .expected = {reference::matmul(reference::reshaped(x, {15, 8}), reference::reshaped(dy, {15, 6}), true)},
       .attributes = {{"transpose_a", true}},
       .scale = 15,
       .thread_independent = false});
}

TEST(Matmul, OfNothingIsZeroOrNothing) {
  expect_kernel(matmul_case({0, 4, 3}, false, false));
  expect_kernel(matmul_case({4, 0, 3}, false, false));
  auto c = matmul_case({4, 3, 0}, false, false);
  const auto bias = random({3}, 3);
  c.inputs.push_back(bias);
  c.attributes.set("bias", true);
  for (std::int64_t i = 0; i < 12; ++i) c.expected[0].tensor[i] = bias[i % 3];
  expect_kernel(c);
}

TEST(Matmul, ShapesThatDoNotFitAreInternalErrors) {
  KernelCase c{.name = "matmul", .inputs = {random({2, 3}, 1), random({4, 5}, 2)}, .expected = {random({2, 5}, 3)}};
  try {
    device_with(1).make_kernel(spec_of(c));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInternal);
    EXPECT_NE(std::string(e.what()).find("matmul (2, 3), (4, 5) -> (2, 5)"), std::string::npos) << e.what();
  }
}

TEST(MatmulTuning, IsTakenOverByAnotherDevice) {
  const auto first = make_cpu_device({.threads = 1}), second = make_cpu_device({.threads = 1});
  const auto spec = spec_of(matmul_case({128, 128, 256}, false, false));
  const auto text = first->tune({spec});
  EXPECT_EQ(text.substr(0, text.rfind(' ')), "128x128x256 nn");
  second->set_tuning(text);
  EXPECT_EQ(second->tune({spec}), text);
}

TEST(MatmulTuning, SurvivesInAFileOfTheSameMachine) {
  const auto path = (std::filesystem::temp_directory_path() / "tessera_matmul_test.txt").string();
  std::filesystem::remove(path);
  const auto spec = spec_of(matmul_case({128, 128, 256}, false, true));
  const auto text = make_cpu_device({.threads = 1, .matmul_cache = path})->tune({spec});
  EXPECT_EQ(make_cpu_device({.threads = 1, .matmul_cache = path})->tune({}), text);
  EXPECT_EQ(make_cpu_device({.threads = 2, .matmul_cache = path})->tune({}), "");
  std::ofstream(path) << "damaged";
  EXPECT_EQ(make_cpu_device({.threads = 1, .matmul_cache = path})->tune({}), "");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::device::test
