#include <gtest/gtest.h>

#include "expect_error.h"
#include "layers/spec_text.h"

namespace tessera::layers {
namespace {

struct Case {
  const char* name;
  SpecText text;
  const char* sentence;
};

SpecText layers_of(const std::string& layers, const std::string& inputs = "x: {shape: [8]}") {
  return {.inputs = inputs, .layers = layers};
}
SpecText optimizer_of(const std::string& optimizer) { return {.optimizer = optimizer}; }
SpecText loss_of(const std::string& loss) { return {.loss = loss}; }

class LayerErrors : public testing::TestWithParam<Case> {};

TEST_P(LayerErrors, NameTheirPlace) {
  EXPECT_CONFIG_ERROR(GetParam().text.build(), GetParam().sentence);
  EXPECT_CONFIG_ERROR(GetParam().text.build(), "test.yaml:");
}

const std::string kTwo = "a: {shape: [3, 4]}, b: {shape: [3, 5]}";

const Case kCases[] = {
    {"unknown_layer", layers_of("- Dens: {units: 3}"), "there is no layer 'Dens'; did you mean 'Dense'?"},
    {"unknown_argument", layers_of("- Dense: {unit: 3}"), "did you mean 'units'?"},
    {"missing_argument", layers_of("- Dense: {name: d}"), "Dense needs 'units'"},
    {"units_zero", layers_of("- Dense: {units: 0}"), "must be positive"},
    {"unknown_activation", layers_of("- Dense: {units: 3, activation: rleu}"), "did you mean 'relu'?"},
    {"strange_activation", layers_of("- Dense: {units: 3, activation: foo}"),
     "no activation 'foo'; known: linear, gelu,"},
    {"strange_initializer", layers_of("- Dense: {units: 3, kernel_initializer: bar}"),
     "no initialiser 'bar'; known: zeros, ones,"},
    {"float_ids", layers_of("- Embedding: {input_dim: 3, output_dim: 2}"),
     "found float32; give the input of the model"},
    {"activation_argument", layers_of("- Dense: {units: 3, activation: {elu: {slope: 1}}}"), "slope"},
    {"regularizer", layers_of("- Dense: {units: 3, kernel_regularizer: l2}"), "is not supported"},
    {"dtype", layers_of("- Dense: {units: 3, dtype: float16}"), "only float32"},
    {"dense_without_features", layers_of("- Dense: {units: 3}", "x: {shape: []}"), "at least 2 dimensions"},
    {"call_argument", layers_of("- Dense: {units: 3, call: {mask: 1}}"), "takes no call argument 'mask'"},
    {"dropout_rate", layers_of("- Dropout: {rate: 1.5}\n    - Dense: {units: 3}"), "between 0 and 1"},
    {"reshape_size", layers_of("- Reshape: {target_shape: [3, -1]}"), "can't hold"},
    {"reshape_overflow", layers_of("- Reshape: {target_shape: [4294967296, 4294967296, -1]}"), "can't hold"},
    {"reshape_dimensions", layers_of("- Reshape: {target_shape: [1, 1, 1, 1, 1, 1, 1, -1]}"),
     "has 9 dimensions; at most"},
    {"input_dimensions", layers_of("- Flatten: {}", "x: {shape: [1, 1, 1, 1, 1, 1, 1, 6]}"),
     "has 9 dimensions; at most"},
    {"units_overflow", layers_of("- Dense: {units: 9223372036854775807}"), "has more than 2^44 elements"},
    {"output_elements",
     layers_of("- Embedding: {input_dim: 9, output_dim: 1048576}", "x: {shape: [33554432], dtype: int32}"),
     "has more than 2^44 elements"},
    {"reshape_two_open", layers_of("- Reshape: {target_shape: [-1, -1]}"), "at most one -1"},
    {"norm_axis", layers_of("- LayerNormalization: {axis: 1}", "x: {shape: [3, 4]}"), "only the last dimensions"},
    {"norm_batch", layers_of("- LayerNormalization: {axis: [0, 1]}"), "not the batch"},
    {"add_one", layers_of("- Add: {inputs: [x]}"), "at least two inputs"},
    {"add_shapes", layers_of("- Add: {inputs: [a, b]}", kTwo), "can't be added"},
    {"concat_shapes", layers_of("- Concatenate: {inputs: [a, b], axis: 1}", kTwo), "differ beside axis 1"},
    {"concat_batch", layers_of("- Concatenate: {inputs: [a, b], axis: 0}", kTwo), "not the batch"},
    {"two_inputs", layers_of("- Dense: {units: 3, inputs: [a, b]}", kTwo), "takes one input"},
    {"initializer_argument", layers_of("- Dense: {units: 3, kernel_initializer: {HeNormal: {gain: 2}}}"), "gain"},
    {"shared_shape", layers_of("- Dense: {name: a, units: 3}\n    - Shared: {name: b, layer: a}"), "needs (3, 3)"},
    {"unknown_loss", loss_of("msee"), "did you mean 'mse'?"},
    {"loss_argument", loss_of("{Huber: {detla: 1}}"), "did you mean 'delta'?"},
    {"loss_reduction_none", loss_of("{Huber: {reduction: none}}"), "must be one of"},
    {"loss_axis", loss_of("{CategoricalCrossentropy: {axis: 1}}"), "is not supported"},
    {"unknown_metric", {.metrics = "[accurcy]"}, "did you mean 'accuracy'?"},
    {"metric_labels", {.metrics = "[SparseCategoricalAccuracy]"}, "it compares labels"},
    {"metric_reduction", {.metrics = "[{MeanSquaredError: {reduction: sum}}]"}, "reduction"},
    {"metric_named_loss", {.metrics = "[{MeanSquaredError: {name: loss}}]"}, "can't be named 'loss'"},
    {"unknown_optimizer", optimizer_of("adm"), "did you mean 'adam'?"},
    {"optimizer_argument", optimizer_of("{SGD: {momentun: 0.9}}"), "did you mean 'momentum'?"},
    {"two_clips", optimizer_of("{SGD: {clipnorm: 1, clipvalue: 1}}"), "only one of clipnorm"},
    {"accumulation_of_one", optimizer_of("{SGD: {gradient_accumulation_steps: 1}}"), "at least 2"},
    {"overwrite_without_ema", optimizer_of("{SGD: {ema_overwrite_frequency: 2}}"), "needs use_ema"},
    {"bad_pattern", optimizer_of("{SGD: {exclude_from_weight_decay: {var_names: ['(']}}}"), "no regular expression"},
    {"bad_schedule", optimizer_of("{SGD: {learning_rate: {Cosine: {}}}}"), "no learning rate schedule"},
    {"negative_rate", optimizer_of("{SGD: {learning_rate: -1}}"), "at least 0"},
    {"two_outputs", {.outputs = "[dense_1, dense_2]"}, "2 outputs"},
};

std::string name_of(const testing::TestParamInfo<Case>& of) { return of.param.name; }

INSTANTIATE_TEST_SUITE_P(All, LayerErrors, testing::ValuesIn(kCases), name_of);

}  // namespace
}  // namespace tessera::layers
