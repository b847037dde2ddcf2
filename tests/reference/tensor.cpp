#include "reference/tensor.h"

#include <algorithm>
#include <cmath>

#include "core/philox.h"

namespace tessera::reference {
namespace {

constexpr double kStep = 1e-4;  // rounding gives 1e-12 / step, the third derivative step^2: both far below float

}  // namespace

Tensor zeros(const Shape& shape, DType dtype) {
  return {shape, std::vector<double>(static_cast<std::size_t>(elements(shape))), dtype};
}

Tensor random(const Shape& shape, std::uint64_t seed, double low, double high) {
  auto t = zeros(shape);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const double u = uniform_01(philox_bits(seed, static_cast<std::uint64_t>(i), 1));
    t[i] = static_cast<double>(static_cast<float>(low + u * (high - low)));
  }
  return t;
}

Tensor random_integers(const Shape& shape, std::uint64_t seed, std::int64_t low, std::int64_t high) {
  auto t = zeros(shape, DType::kI32);
  for (std::int64_t i = 0; i < t.size(); ++i)
    t[i] = static_cast<double>(low + philox_bits(seed, static_cast<std::uint64_t>(i), 2) % (high - low));
  return t;
}

Tensor reshaped(Tensor x, const Shape& shape) {
  x.shape = shape;
  return x;
}

Tensor numeric_gradient(const Function& f, std::vector<Tensor> inputs, std::size_t k, const Tensor& cotangent) {
  const auto loss = [&] {
    const auto y = f(inputs);
    double sum = 0;
    for (std::int64_t i = 0; i < y.size(); ++i) sum += y[i] * cotangent[i];
    return sum;
  };
  auto gradient = zeros(inputs[k].shape);
  for (std::int64_t i = 0; i < gradient.size(); ++i) {
    const auto x = inputs[k][i];
    inputs[k][i] = x + kStep;
    const auto above = loss();
    inputs[k][i] = x - kStep;
    gradient[i] = (above - loss()) / (2 * kStep);
    inputs[k][i] = x;
  }
  return gradient;
}

double numeric_derivative(const std::function<double(double)>& f, double x) {
  return (f(x + kStep) - f(x - kStep)) / (2 * kStep);
}

}  // namespace tessera::reference
