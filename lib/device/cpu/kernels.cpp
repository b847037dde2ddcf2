#include "device/cpu/kernels.h"

#include <map>
#include <string_view>
#include <vector>

#include "core/text.h"

namespace tessera::device::cpu {
namespace {

struct Entry {
  Factory make;
  std::int64_t (*scratch)(const KernelSpec&) = nullptr;  // null: it takes none
};

const std::map<std::string_view, Entry> kKernels = {
    {"matmul", {make_matmul, matmul_scratch}},
    {"elementwise", {make_elementwise}},
    {"reduce_sum", {make_reduce_sum, reduce_sum_scratch}},
    {"add_n", {make_add_n}},
    {"sum_squares", {make_sum_squares, sum_squares_scratch}},
    {"softmax", {make_softmax}},
    {"softmax_backward", {make_softmax_backward}},
    {"row_max", {make_row_max}},
    {"row_sum_exp", {make_row_sum_exp}},
    {"softmax_finish", {make_softmax_finish}},
    {"row_dot", {make_row_dot}},
    {"softmax_backward_finish", {make_softmax_backward_finish}},
    {"layer_norm", {make_layer_norm}},
    {"row_moments", {make_row_moments}},
    {"layer_norm_finish", {make_layer_norm_finish}},
    {"layer_norm_backward", {make_layer_norm_backward, layer_norm_backward_scratch}},
    {"layer_norm_backward_sums", {make_layer_norm_backward_sums}},
    {"layer_norm_backward_finish", {make_layer_norm_backward_finish, layer_norm_backward_scratch}},
    {"embedding", {make_embedding}},
    {"embedding_backward", {make_embedding_backward}},
    {"dropout", {make_dropout}},
    {"row_loss", {make_row_loss}},
    {"row_loss_backward", {make_row_loss_backward}},
    {"categorical_crossentropy", {make_categorical_crossentropy}},
    {"categorical_crossentropy_backward", {make_categorical_crossentropy_backward}},
    {"sparse_crossentropy", {make_sparse_crossentropy}},
    {"sparse_crossentropy_backward", {make_sparse_crossentropy_backward}},
    {"row_sum_exp_picked", {make_row_sum_exp_picked}},
    {"sparse_crossentropy_finish", {make_sparse_crossentropy_finish}},
    {"weighted_sum", {make_weighted_sum, weighted_sum_scratch}},
    {"weighted_sum_backward", {make_weighted_sum_backward}},
    {"count_valid", {make_count_valid}},
    {"sum_weights", {make_sum_weights}},
    {"match_rows", {make_match_rows}},
    {"metric_accumulate", {make_metric_accumulate}},
    {"clip_by_norm", {make_clip_by_norm}},
    {"accumulate_gradient", {make_accumulate_gradient}},
    {"average_gradient", {make_average_gradient}},
    {"sgd_update", {make_sgd_update, update_scratch}},
    {"adam_update", {make_adam_update, update_scratch}},
    {"rmsprop_update", {make_rmsprop_update, update_scratch}},
    {"ema_update", {make_ema_update}},
    {"ema_overwrite", {make_ema_overwrite}},
    {"copy", {make_copy}},
    {"fill", {make_fill}},
    {"copy_box", {make_copy_box}},
    {"keep_or_zero", {make_keep_or_zero}},
    {"pack", {make_pack}},
    {"unpack", {make_unpack}},
    {"concat", {make_concat}},
    {"split", {make_split}},
    {"broadcast_to", {make_broadcast_to}},
    {"cast", {make_cast}},
};

const Entry& entry_of(const KernelSpec& spec) {
  const auto it = kKernels.find(spec.name);
  if (it != kKernels.end()) return it->second;
  std::vector<std::string> names;
  for (const auto& [name, entry] : kKernels) names.emplace_back(name);
  fail(ExitCode::kInternal, "internal error: the CPU has no kernel '{}'{}", spec.name, did_you_mean(spec.name, names));
}

}  // namespace

Factory find_factory(const KernelSpec& spec) { return entry_of(spec).make; }

std::int64_t scratch_bytes(const KernelSpec& spec) {
  const auto scratch = entry_of(spec).scratch;
  return scratch == nullptr ? 0 : scratch(spec);
}

}  // namespace tessera::device::cpu
