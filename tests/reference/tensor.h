#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace tessera::reference {

/// A whole tensor in double; dtype is what a backend gets it as.
struct Tensor {
  Shape shape;
  std::vector<double> data;
  DType dtype = DType::kF32;

  double& operator[](std::int64_t i) { return data[static_cast<std::size_t>(i)]; }
  double operator[](std::int64_t i) const { return data[static_cast<std::size_t>(i)]; }
  std::int64_t size() const { return static_cast<std::int64_t>(data.size()); }
  std::int64_t cols() const { return shape.empty() ? 1 : shape.back(); }
  std::int64_t rows() const { return cols() == 0 ? elements({shape.begin(), shape.end() - 1}) : size() / cols(); }
};

Tensor zeros(const Shape& shape, DType dtype = DType::kF32);

/// Uniform in [low, high), each value a float; the seed decides all.
Tensor random(const Shape& shape, std::uint64_t seed, double low = -1, double high = 1);

/// Uniform among low, ..., high - 1.
Tensor random_integers(const Shape& shape, std::uint64_t seed, std::int64_t low, std::int64_t high);

/// The same numbers in another shape.
Tensor reshaped(Tensor x, const Shape& shape);

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// Derivative of sum(cotangent f(inputs)) by input k, by central differences.
Tensor numeric_gradient(const Function& f, std::vector<Tensor> inputs, std::size_t k, const Tensor& cotangent);

/// The same for a function of one number.
double numeric_derivative(const std::function<double(double)>& f, double x);

}  // namespace tessera::reference
