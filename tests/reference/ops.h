#pragma once

#include <optional>
#include <string>

#include "reference/tensor.h"

namespace tessera::reference {

/// A function of one number: the activations and the unary ops of `elementwise`, with their constants.
double activation(const std::string& name, double x, double a = 0, double b = 0);

/// The names that `activation` knows as activations, each of which has a gradient.
const std::vector<std::string>& activation_names();

/// alpha op(a) op(b), matrices.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false, double alpha = 1);

Tensor reduce_sum(const Tensor& x, const std::vector<std::int64_t>& dims, double scale = 1);

/// Over the last dimension.
Tensor softmax(const Tensor& x, bool log = false);
Tensor row_max(const Tensor& x);
Tensor row_sum_exp(const Tensor& x, const Tensor& m);

struct Norm {
  Tensor y, mean, rstd;
};
/// Over the trailing `axes` dimensions; gamma and beta may be absent.
Norm layer_norm(const Tensor& x, const Tensor* gamma, const Tensor* beta, double epsilon, std::int64_t axes = 1);

Tensor embedding(const Tensor& table, const Tensor& ids);

struct LossOptions {
  double delta = 1, smoothing = 0;
  bool logits = false;
  std::optional<std::int64_t> ignore = {};
};
/// mse, mae, huber, binary_crossentropy: mean over the last dimension.
Tensor row_loss(const std::string& loss, const Tensor& pred, const Tensor& target, const LossOptions& options = {});
Tensor categorical_crossentropy(const Tensor& pred, const Tensor& target, const LossOptions& options = {});
Tensor sparse_crossentropy(const Tensor& pred, const Tensor& labels, const LossOptions& options = {});

}  // namespace tessera::reference
