#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "core/error.h"
#include "device/harness.h"
#include "reference/ops.h"

namespace tessera::device::test {
namespace {

using reference::random;

KernelCase chain(const std::string& program, std::vector<Operand> inputs, std::vector<Operand> expected) {
  return {.name = "elementwise",
          .inputs = std::move(inputs),
          .expected = std::move(expected),
          .attributes = {{"program", program}}};
}

/// The constants that a test gives an op, as they stand in a program.
const std::map<std::string, std::pair<std::string, double>> kConstants = {
    {"leaky_relu", {" 0.2", 0.2}}, {"elu", {" 1.5", 1.5}}, {"celu", {" 0.7", 0.7}}};

std::string constants(const std::string& op) { return kConstants.contains(op) ? kConstants.at(op).first : ""; }
double constant(const std::string& op) { return kConstants.contains(op) ? kConstants.at(op).second : 0; }

bool gradient_reads_result(const std::string& op) {
  for (const auto* name : {"relu", "relu6", "leaky_relu", "elu", "selu", "celu", "sigmoid", "tanh", "exponential"})
    if (op == name) return true;
  return false;
}

template <class F>
Tensor mapped(Tensor x, const F& f) {
  for (auto& v : x.data) v = f(v);
  return x;
}

TEST(Elementwise, EveryActivationEqualsTheOracle) {
  for (const auto& op : reference::activation_names())
    for (const std::int64_t n : {1, 5, 16, 1000, 1025, 5000}) {
      const auto x = random({n}, 7, -9, 9);
      const auto y = mapped(x, [&](double v) { return reference::activation(op, v, constant(op)); });
      auto c = chain(op + " i0" + constants(op), {x}, {y});
      c.in_place = {{0, 0}};
      c.scale = 0.2;
      expect_kernel(c);
    }
}

TEST(Elementwise, EveryActivationsGradientEqualsFiniteDifferences) {
  for (const auto& op : reference::activation_names())
    for (const std::int64_t n : {1, 16, 1025}) {
      const auto f = [&](double v) { return reference::activation(op, v, constant(op)); };
      const auto x = random({n}, 8, -5, 5), dy = random({n}, 9);
      auto dx = dy;
      for (std::int64_t i = 0; i < n; ++i) dx[i] *= reference::numeric_derivative(f, x[i]);
      const auto read = gradient_reads_result(op) ? mapped(x, f) : x;
      auto c = chain(op + "_grad i0 i1" + constants(op), {read, dy}, {dx});
      c.in_place = {{0, 1}};
      c.tolerance = 1e-5;
      expect_kernel(c);
    }
}

TEST(Elementwise, SmallResultsKeepTheirRelativeError) {
  for (const std::string op : {"gelu", "silu", "sigmoid", "softplus", "exponential", "mish", "elu", "tanh"}) {
    const auto x = random({512}, 10, op == "tanh" ? -0.01 : op == "gelu" ? -3.5 : -6, op == "tanh" ? 0.01 : -2);
    auto c = chain(op + " i0" + constants(op), {x},
                   {mapped(x, [&](double v) { return reference::activation(op, v, constant(op)); })});
    c.scale = 0;
    c.tolerance = op == "gelu" ? 3e-5 : 4e-6;
    expect_kernel(c);
  }
}

TEST(Elementwise, UnaryAndBinaryOpsEqualTheOracle) {
  const auto x = random({3, 40}, 1, 0.1, 2), y = random({3, 40}, 2, 0.1, 2);
  for (const std::string step :
       {"affine i0 0.5 -2", "clip i0 0.3 0.9", "neg i0", "square i0", "abs i0", "sqrt i0", "linear i0"}) {
    const auto op = step.substr(0, step.find(' '));
    const double a = op == "affine" ? 0.5 : 0.3, b = op == "affine" ? -2 : 0.9;
    expect_kernel(chain(step, {x}, {mapped(x, [&](double v) { return reference::activation(op, v, a, b); })}));
  }
  using Binary = double (*)(double, double);
  const std::map<std::string, Binary> binary{{"add", [](double u, double v) { return u + v; }},
                                             {"sub", [](double u, double v) { return u - v; }},
                                             {"mul", [](double u, double v) { return u * v; }},
                                             {"div", [](double u, double v) { return u / v; }},
                                             {"max", [](double u, double v) { return std::max(u, v); }},
                                             {"min", [](double u, double v) { return std::min(u, v); }}};
  for (const auto& [op, f] : binary) {
    auto z = x;
    for (std::int64_t i = 0; i < z.size(); ++i) z[i] = f(x[i], y[i]);
    auto c = chain(op + " i0 i1", {x, y}, {z});
    for (const int k : {0, 1}) {
      c.in_place = {{0, k}};
      expect_kernel(c);
    }
  }
}

TEST(Elementwise, InputsBroadcastOverRowsColumnsAndAsScalars) {
  for (const auto cols : odd_sizes())
    for (const std::int64_t rows : {1, 7, 40}) {
      const auto x = random({rows, 2, cols}, 1), bias = random({cols}, 2), tail = random({2, cols}, 3),
                 head = random({rows, 1, 1}, 4), scalar = random({}, 5), one_row = random({1, 1, cols}, 6);
      auto y = x;
      for (std::int64_t i = 0; i < y.size(); ++i)
        y[i] = ((x[i] + bias[i % cols]) * tail[i % (2 * cols)] + head[i / (2 * cols)]) * scalar[0] - one_row[i % cols];
      auto c = chain("add i0 i1 | mul t0 i2 | add t1 i3 | mul t2 i4 | sub t3 i5",
                     {x, bias, tail, head, scalar, one_row}, {y});
      c.scale = 4;
      c.in_place = {{0, 0}};
      expect_kernel(c);
    }
}

TEST(Elementwise, GivesSeveralResultsAlsoInPlace) {
  const auto x = random({2500}, 1), y = random({2500}, 2);
  auto sum = x, product = x, last = x;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    sum[i] = x[i] + y[i];
    product[i] = x[i] * y[i];
    last[i] = sum[i] - product[i];
  }
  auto c = chain("add i0 i1 | mul i0 i1 | sub t0 t1", {x, y}, {last, product, sum});
  c.attributes.set("results", std::vector<std::int64_t>{2, 1, 0});
  c.in_place = {{0, 1}, {2, 0}};
  expect_kernel(c);
}

TEST(Elementwise, PassesNaNOnAndKnowsInfinity) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  auto x = reference::zeros({9});
  std::fill(x.data.begin(), x.data.end(), nan);
  for (const auto& op : reference::activation_names()) expect_kernel(chain(op + " i0" + constants(op), {x}, {x}));
  for (const std::string step : {"max i0 1", "max 1 i0", "min i0 1", "min 1 i0", "clip i0 0 1", "affine i0 0 1"})
    expect_kernel(chain(step, {x}, {x}));
  const Tensor big{{4}, {inf, -inf, 200, -200}};
  expect_kernel(chain("exponential i0", {big}, {Tensor{{4}, {inf, 0, inf, 0}}}));
  expect_kernel(chain("sigmoid i0", {big}, {Tensor{{4}, {1, 0, 1, 0}}}));
  expect_kernel(chain("tanh i0", {big}, {Tensor{{4}, {1, -1, 1, -1}}}));
  expect_kernel(chain("softplus i0", {big}, {Tensor{{4}, {inf, 0, 200, 0}}}));
}

TEST(Elementwise, OfNothingIsNothing) { expect_kernel(chain("relu i0", {random({0, 4}, 1)}, {random({0, 4}, 1)})); }

TEST(Elementwise, WrongProgramsAreInternalErrors) {
  const auto x = random({4}, 1);
  for (const std::string program : {"relx i0", "add i0", "add i0 i1", "add i0 t0", "relu i0 |", "affine i0 1",
                                    "elu i0 x", "", "leaky_relu i0 -1"}) {
    EXPECT_THROW(device_with(1).make_kernel(spec_of(chain(program, {x}, {x}))), Error) << program;
  }
  EXPECT_THROW(device_with(1).make_kernel(spec_of(chain("add i0 i1", {x, random({3}, 1)}, {x}))), Error);
}

}  // namespace
}  // namespace tessera::device::test
