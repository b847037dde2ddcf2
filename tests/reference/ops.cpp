#include "reference/ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

namespace tessera::reference {
namespace {

using Unary = double (*)(double x, double a, double b);

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double hard_sigmoid(double x) { return std::clamp(x + 3, 0.0, 6.0) / 6; }
constexpr double kSeluScale = 1.0507009873554804934193349852946, kSeluAlpha = 1.6732632423543772848170429916717;

const std::map<std::string, Unary> kActivations = {
    {"relu", [](double x, double, double) { return std::max(x, 0.0); }},
    {"relu6", [](double x, double, double) { return std::clamp(x, 0.0, 6.0); }},
    {"leaky_relu", [](double x, double a, double) { return x > 0 ? x : a * x; }},
    {"elu", [](double x, double a, double) { return x > 0 ? x : a * std::expm1(x); }},
    {"selu", [](double x, double, double) { return kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x)); }},
    {"celu", [](double x, double a, double) { return std::max(x, 0.0) + std::min(0.0, a * std::expm1(x / a)); }},
    {"gelu", [](double x, double, double) { return x * std::erfc(-x / std::sqrt(2.0)) / 2; }},
    {"gelu_tanh", [](double x, double,
                     double) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
    {"silu", [](double x, double, double) { return x * sigmoid(x); }},
    {"sigmoid", [](double x, double, double) { return sigmoid(x); }},
    {"hard_sigmoid", [](double x, double, double) { return hard_sigmoid(x); }},
    {"hard_silu", [](double x, double, double) { return x * hard_sigmoid(x); }},
    {"tanh", [](double x, double, double) { return std::tanh(x); }},
    {"softplus", [](double x, double, double) { return softplus(x); }},
    {"softsign", [](double x, double, double) { return x / (1 + std::fabs(x)); }},
    {"mish", [](double x, double, double) { return x * std::tanh(softplus(x)); }},
    {"exponential", [](double x, double, double) { return std::exp(x); }},
};

const std::map<std::string, Unary> kOthers = {
    {"affine", [](double x, double a, double b) { return a * x + b; }},
    {"clip", [](double x, double a, double b) { return std::clamp(x, a, b); }},
    {"neg", [](double x, double, double) { return -x; }},
    {"square", [](double x, double, double) { return x * x; }},
    {"abs", [](double x, double, double) { return std::fabs(x); }},
    {"sqrt", [](double x, double, double) { return std::sqrt(x); }},
    {"linear", [](double x, double, double) { return x; }},
};

Shape without_last(const Shape& shape) { return {shape.begin(), shape.end() - 1}; }

double log_sum_exp(const Tensor& x, std::int64_t row) {
  const auto n = x.cols();
  double m = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t c = 0; c < n; ++c) m = std::max(m, x[row * n + c]);
  for (std::int64_t c = 0; c < n; ++c) sum += std::exp(x[row * n + c] - m);
  return m + std::log(sum);
}

double row_sum(const Tensor& x, std::int64_t row) {
  double sum = 0;
  for (std::int64_t c = 0; c < x.cols(); ++c) sum += x[row * x.cols() + c];
  return sum;
}

double clip(double p) { return std::clamp(p, 1e-7, 1 - 1e-7); }

}  // namespace

double activation(const std::string& name, double x, double a, double b) {
  const auto& table = kActivations.contains(name) ? kActivations : kOthers;
  return table.at(name)(x, a, b);
}

const std::vector<std::string>& activation_names() {
  static const auto kNames = [] {
    std::vector<std::string> list;
    for (const auto& [name, f] : kActivations) list.push_back(name);
    return list;
  }();
  return kNames;
}

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, double alpha) {
  const auto m = transpose_a ? a.cols() : a.rows(), k = transpose_a ? a.rows() : a.cols();
  const auto n = transpose_b ? b.rows() : b.cols();
  auto y = zeros({m, n});
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l)
        y[i * n + j] += alpha * a[transpose_a ? l * m + i : i * k + l] * b[transpose_b ? j * k + l : l * n + j];
  return y;
}

Tensor reduce_sum(const Tensor& x, const std::vector<std::int64_t>& dims, double scale) {
  const auto summed = [&](std::size_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); };
  Shape shape;
  for (std::size_t d = 0; d < x.shape.size(); ++d)
    if (!summed(d)) shape.push_back(x.shape[d]);
  auto y = zeros(shape);
  const auto strides = strides_of(x.shape);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    std::int64_t to = 0;
    for (std::size_t d = 0; d < x.shape.size(); ++d)
      if (!summed(d)) to = to * x.shape[d] + i / strides[d] % x.shape[d];
    y[to] += scale * x[i];
  }
  return y;
}

Tensor softmax(const Tensor& x, bool log) {
  auto y = x;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto lse = log_sum_exp(x, r);
    for (auto i = r * x.cols(); i < (r + 1) * x.cols(); ++i) y[i] = log ? x[i] - lse : std::exp(x[i] - lse);
  }
  return y;
}

Tensor row_max(const Tensor& x) {
  auto y = zeros(without_last(x.shape));
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    y[r] = -std::numeric_limits<double>::infinity();
    for (std::int64_t c = 0; c < x.cols(); ++c) y[r] = std::max(y[r], x[r * x.cols() + c]);
  }
  return y;
}

Tensor row_sum_exp(const Tensor& x, const Tensor& m) {
  auto y = zeros(without_last(x.shape));
  for (std::int64_t r = 0; r < x.rows(); ++r)
    for (std::int64_t c = 0; c < x.cols(); ++c) y[r] += std::exp(x[r * x.cols() + c] - m[r]);
  return y;
}

Norm layer_norm(const Tensor& x, const Tensor* gamma, const Tensor* beta, double epsilon, std::int64_t axes) {
  const Shape outer(x.shape.begin(), x.shape.end() - axes);
  const auto rows = elements(outer), n = elements(Shape(x.shape.end() - axes, x.shape.end()));
  Norm result{x, zeros(outer), zeros(outer)};
  for (std::int64_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (std::int64_t c = 0; c < n; ++c) mean += x[r * n + c] / static_cast<double>(n);
    for (std::int64_t c = 0; c < n; ++c)
      variance += (x[r * n + c] - mean) * (x[r * n + c] - mean) / static_cast<double>(n);
    result.mean[r] = mean;
    result.rstd[r] = 1 / std::sqrt(variance + epsilon);
    for (std::int64_t c = 0; c < n; ++c) {
      auto& y = result.y[r * n + c];
      y = (x[r * n + c] - mean) * result.rstd[r];
      if (gamma != nullptr) y *= (*gamma)[c];
      if (beta != nullptr) y += (*beta)[c];
    }
  }
  return result;
}

Tensor embedding(const Tensor& table, const Tensor& ids) {
  auto shape = ids.shape;
  shape.push_back(table.cols());
  auto y = zeros(shape);
  for (std::int64_t k = 0; k < ids.size(); ++k)
    for (std::int64_t c = 0; c < table.cols(); ++c)
      y[k * table.cols() + c] = table[static_cast<std::int64_t>(ids[k]) * table.cols() + c];
  return y;
}

Tensor row_loss(const std::string& loss, const Tensor& pred, const Tensor& target, const LossOptions& o) {
  auto l = zeros(without_last(pred.shape));
  const auto n = pred.cols();
  const auto one = [&](double p, double y) {
    const auto e = std::fabs(p - y);
    if (loss == "mse") return e * e;
    if (loss == "mae") return e;
    if (loss == "huber") return e <= o.delta ? 0.5 * e * e : o.delta * e - 0.5 * o.delta * o.delta;
    if (loss != "binary_crossentropy") throw std::invalid_argument(loss);
    const auto t = y * (1 - o.smoothing) + 0.5 * o.smoothing;
    if (o.logits) return std::max(p, 0.0) - p * t + std::log1p(std::exp(-std::fabs(p)));
    return -(t * std::log(clip(p)) + (1 - t) * std::log(1 - clip(p)));
  };
  for (std::int64_t r = 0; r < l.size(); ++r)
    for (std::int64_t c = 0; c < n; ++c) l[r] += one(pred[r * n + c], target[r * n + c]) / static_cast<double>(n);
  return l;
}

Tensor categorical_crossentropy(const Tensor& pred, const Tensor& target, const LossOptions& o) {
  auto l = zeros(without_last(pred.shape));
  const auto n = pred.cols();
  for (std::int64_t r = 0; r < l.size(); ++r)
    for (std::int64_t c = 0; c < n; ++c) {
      const auto t = target[r * n + c] * (1 - o.smoothing) + o.smoothing / static_cast<double>(n);
      l[r] -=
          t * (o.logits ? pred[r * n + c] - log_sum_exp(pred, r) : std::log(clip(pred[r * n + c] / row_sum(pred, r))));
    }
  return l;
}

Tensor sparse_crossentropy(const Tensor& pred, const Tensor& labels, const LossOptions& o) {
  auto l = zeros(without_last(pred.shape));
  const auto n = pred.cols();
  for (std::int64_t r = 0; r < l.size(); ++r) {
    const auto label = static_cast<std::int64_t>(labels[r]);
    if (o.ignore && *o.ignore == label) continue;
    const auto p = pred[r * n + label];
    l[r] = o.logits ? log_sum_exp(pred, r) - p : -std::log(clip(p / row_sum(pred, r)));
  }
  return l;
}

}  // namespace tessera::reference
