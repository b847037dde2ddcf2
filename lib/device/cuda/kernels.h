#pragma once

#include <memory>

#include "device/cuda/kernel.h"

namespace tessera::device::cuda {

/// The factory of a kernel; throws Error (internal) for an unknown name.
Factory find_factory(const KernelSpec& spec);

// matmul.cpp
std::unique_ptr<Kernel> make_matmul(const KernelSpec&, Context&, Stream);
// elementwise.cu
std::unique_ptr<Kernel> make_elementwise(const KernelSpec&, Context&, Stream);
// reduce.cu
std::unique_ptr<Kernel> make_reduce_sum(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_add_n(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_sum_squares(const KernelSpec&, Context&, Stream);
// softmax.cu
std::unique_ptr<Kernel> make_softmax(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_softmax_backward(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_row_max(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_row_sum_exp(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_softmax_finish(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_row_dot(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_softmax_backward_finish(const KernelSpec&, Context&, Stream);
// layer_norm.cu
std::unique_ptr<Kernel> make_layer_norm(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_row_moments(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_layer_norm_finish(const KernelSpec&, Context&, Stream);
// layer_norm_backward.cu
std::unique_ptr<Kernel> make_layer_norm_backward(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_layer_norm_backward_sums(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_layer_norm_backward_finish(const KernelSpec&, Context&, Stream);
// embedding.cu
std::unique_ptr<Kernel> make_embedding(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_embedding_backward(const KernelSpec&, Context&, Stream);
// dropout.cu
std::unique_ptr<Kernel> make_dropout(const KernelSpec&, Context&, Stream);
// row_loss.cu
std::unique_ptr<Kernel> make_row_loss(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_row_loss_backward(const KernelSpec&, Context&, Stream);
// crossentropy.cu
std::unique_ptr<Kernel> make_categorical_crossentropy(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_categorical_crossentropy_backward(const KernelSpec&, Context&, Stream);
// sparse_crossentropy.cu
std::unique_ptr<Kernel> make_sparse_crossentropy(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_sparse_crossentropy_backward(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_row_sum_exp_picked(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_sparse_crossentropy_finish(const KernelSpec&, Context&, Stream);
// weighted_sum.cu
std::unique_ptr<Kernel> make_weighted_sum(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_weighted_sum_backward(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_count_valid(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_sum_weights(const KernelSpec&, Context&, Stream);
// metrics.cu
std::unique_ptr<Kernel> make_match_rows(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_metric_accumulate(const KernelSpec&, Context&, Stream);
// gradient.cu
std::unique_ptr<Kernel> make_clip_by_norm(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_accumulate_gradient(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_average_gradient(const KernelSpec&, Context&, Stream);
// optimizer.cu
std::unique_ptr<Kernel> make_sgd_update(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_adam_update(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_rmsprop_update(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_ema_update(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_ema_overwrite(const KernelSpec&, Context&, Stream);
// movement.cu
std::unique_ptr<Kernel> make_copy(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_fill(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_copy_box(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_keep_or_zero(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_pack(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_unpack(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_concat(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_split(const KernelSpec&, Context&, Stream);
std::unique_ptr<Kernel> make_broadcast_to(const KernelSpec&, Context&, Stream);
// cast.cu
std::unique_ptr<Kernel> make_cast(const KernelSpec&, Context&, Stream);

}  // namespace tessera::device::cuda
