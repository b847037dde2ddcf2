#include "runtime/initial_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/philox.h"
#include "runtime/draws.h"
#include "runtime/orthogonal.h"

namespace tessera::runtime {
namespace {

double normal_distribution(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

/// Draws the values of one initializer, best of neighbours in turn.
class Draw {
 public:
  Draw(const graph::Initializer& init, std::int64_t columns)
      : init_(init), columns_(columns), first_(init.key, 0), second_(init.key, 1) {}

  double value(std::uint64_t element) {
    using Kind = graph::Initializer::Kind;
    switch (init_.kind) {
      case Kind::kConstant:
        return init_.value;
      case Kind::kUniform:
        return init_.low + (init_.high - init_.low) * uniform_01(first_.of(element));
      case Kind::kNormal:
        return init_.mean + init_.stddev * normal(first_.of(element), second_.of(element));
      case Kind::kTruncatedNormal: {
        static const double kLow = normal_distribution(-2), kHigh = normal_distribution(2);
        return init_.mean + init_.stddev * inverse_normal(kLow + open_uniform(first_.of(element)) * (kHigh - kLow));
      }
      case Kind::kIdentity: {
        const auto index = static_cast<std::int64_t>(element);
        return index / columns_ == index % columns_ ? init_.value : 0;
      }
      case Kind::kOrthogonal:
        break;  // not element by element: orthogonal.h
    }
    return 0;
  }

 private:
  const graph::Initializer& init_;
  std::int64_t columns_;
  Bits first_, second_;
};

template <typename T>
void fill(const graph::Initializer& init, const Shape& shape, const Box& box, std::int64_t first, std::int64_t count,
          T* values) {
  if (init.kind == graph::Initializer::Kind::kConstant) {
    std::fill_n(values, count, static_cast<T>(init.value));
    return;
  }
  if (init.kind == graph::Initializer::Kind::kOrthogonal) {
    orthogonal_values(init, shape, box, first, count,
                      [&](std::int64_t k, double value) { values[k] = static_cast<T>(value); });
    return;
  }
  const auto strides = strides_of(shape);
  const auto columns = shape.empty() ? 1 : shape.back();
  const auto row = box.size.empty() ? 1 : box.size.back();  // neighbours in the box and in the tensor
  constexpr std::int64_t kBlock = 4096;
#pragma omp parallel for schedule(static)
  for (std::int64_t block = 0; block < count; block += kBlock) {
    Draw draw(init, columns);
    for (auto k = block; k < std::min(block + kBlock, count);) {
      const auto end = std::min({block + kBlock, count, k + row - (first + k) % row});
      for (auto index = static_cast<std::uint64_t>(global_index(box, strides, first + k)); k < end; ++k, ++index)
        values[k] = static_cast<T>(draw.value(index));
    }
  }
}

}  // namespace

void initial_values(const graph::Initializer& init, const Shape& shape, const Box& box, DType dtype, std::int64_t first,
                    std::int64_t count, void* values) {
  using Kind = graph::Initializer::Kind;
  if (init.kind == Kind::kIdentity && shape.size() != 2)
    fail(ExitCode::kConfig, "the identity initializer makes matrices, not a variable of shape {}", to_string(shape));
  if (init.kind == Kind::kOrthogonal && shape.size() < 2)
    fail(ExitCode::kConfig, "the orthogonal initializer makes matrices, not a variable of shape {}", to_string(shape));
  if (init.kind != Kind::kConstant && !is_float(dtype))
    fail(ExitCode::kConfig, "a variable of dtype {} can only be initialised with a constant", to_string(dtype));
  switch (dtype) {
    case DType::kF32:
      return fill(init, shape, box, first, count, static_cast<float*>(values));
    case DType::kF64:
      return fill(init, shape, box, first, count, static_cast<double*>(values));
    case DType::kI32:
      return fill(init, shape, box, first, count, static_cast<std::int32_t*>(values));
    case DType::kI64:
      return fill(init, shape, box, first, count, static_cast<std::int64_t*>(values));
    default:
      fail(ExitCode::kConfig, "variables of dtype {} are not supported; use float32", to_string(dtype));
  }
}

double inverse_normal(double p) {
  // Peter J. Acklam, "An algorithm for computing the inverse normal cumulative distribution function", 2003.
  constexpr std::array a{-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                         1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr std::array b{-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                         -1.328068155288572e+01};
  constexpr std::array c{-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                         -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr std::array d{7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
  const auto tail = [&](double q) {
    return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
           ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
  };
  constexpr double kLow = 0.02425;
  double z = 0;
  if (p < kLow) {
    z = tail(std::sqrt(-2 * std::log(p)));
  } else if (p > 1 - kLow) {
    z = -tail(std::sqrt(-2 * std::log1p(-p)));
  } else {
    const double q = p - 0.5, r = q * q;
    z = (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
        (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
  }
  const double error = normal_distribution(z) - p;
  const double u = error * std::sqrt(2 * std::numbers::pi) * std::exp(z * z / 2);
  return z - u / (1 + z * u / 2);
}

}  // namespace tessera::runtime
