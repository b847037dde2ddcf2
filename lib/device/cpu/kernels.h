#pragma once

#include <memory>

#include "device/cpu/kernel.h"

namespace tessera::device::cpu {

/// The factory of a kernel; throws Error (internal) for an unknown name.
Factory find_factory(const KernelSpec& spec);

/// Bytes of the context's scratch that the kernel takes. Throws Error (internal) for an unknown name.
std::int64_t scratch_bytes(const KernelSpec& spec);

// matmul.cpp
std::unique_ptr<Kernel> make_matmul(const KernelSpec&, Context&);
std::int64_t matmul_scratch(const KernelSpec&);
// elementwise.cpp
std::unique_ptr<Kernel> make_elementwise(const KernelSpec&, Context&);
// reduce.cpp
std::unique_ptr<Kernel> make_reduce_sum(const KernelSpec&, Context&);
std::int64_t reduce_sum_scratch(const KernelSpec&);
std::unique_ptr<Kernel> make_add_n(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_sum_squares(const KernelSpec&, Context&);
std::int64_t sum_squares_scratch(const KernelSpec&);
// softmax.cpp
std::unique_ptr<Kernel> make_softmax(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_softmax_backward(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_row_max(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_row_sum_exp(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_softmax_finish(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_row_dot(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_softmax_backward_finish(const KernelSpec&, Context&);
// layer_norm.cpp
std::unique_ptr<Kernel> make_layer_norm(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_row_moments(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_layer_norm_finish(const KernelSpec&, Context&);
// layer_norm_backward.cpp
std::unique_ptr<Kernel> make_layer_norm_backward(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_layer_norm_backward_sums(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_layer_norm_backward_finish(const KernelSpec&, Context&);
std::int64_t layer_norm_backward_scratch(const KernelSpec&);  // of _finish too
// embedding.cpp
std::unique_ptr<Kernel> make_embedding(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_embedding_backward(const KernelSpec&, Context&);
// dropout.cpp
std::unique_ptr<Kernel> make_dropout(const KernelSpec&, Context&);
// row_loss.cpp
std::unique_ptr<Kernel> make_row_loss(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_row_loss_backward(const KernelSpec&, Context&);
// crossentropy.cpp
std::unique_ptr<Kernel> make_categorical_crossentropy(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_categorical_crossentropy_backward(const KernelSpec&, Context&);
// sparse_crossentropy.cpp
std::unique_ptr<Kernel> make_sparse_crossentropy(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_sparse_crossentropy_backward(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_row_sum_exp_picked(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_sparse_crossentropy_finish(const KernelSpec&, Context&);
// weighted_sum.cpp
std::unique_ptr<Kernel> make_weighted_sum(const KernelSpec&, Context&);
std::int64_t weighted_sum_scratch(const KernelSpec&);
std::unique_ptr<Kernel> make_weighted_sum_backward(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_count_valid(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_sum_weights(const KernelSpec&, Context&);
// metrics.cpp
std::unique_ptr<Kernel> make_match_rows(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_metric_accumulate(const KernelSpec&, Context&);
// gradient.cpp
std::unique_ptr<Kernel> make_clip_by_norm(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_accumulate_gradient(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_average_gradient(const KernelSpec&, Context&);
// optimizer.cpp
std::unique_ptr<Kernel> make_sgd_update(const KernelSpec&, Context&);
std::int64_t update_scratch(const KernelSpec&);  // of the three updates of weights
std::unique_ptr<Kernel> make_adam_update(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_rmsprop_update(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_ema_update(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_ema_overwrite(const KernelSpec&, Context&);
// movement.cpp
std::unique_ptr<Kernel> make_copy(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_fill(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_copy_box(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_keep_or_zero(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_pack(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_unpack(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_concat(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_split(const KernelSpec&, Context&);
std::unique_ptr<Kernel> make_broadcast_to(const KernelSpec&, Context&);
// cast.cpp
std::unique_ptr<Kernel> make_cast(const KernelSpec&, Context&);

}  // namespace tessera::device::cpu
