// Sums that are made on several ranks: nothing is added twice, nothing is left out.
#include <cmath>

#include <gtest/gtest.h>

#include "core/error.h"
#include "faults/cases.h"

namespace tessera::faults {
namespace {

using partition::Instruction;
using partition::Phase;
using test::Tensors;

constexpr double kSeen = 1e-3;  // a mistake is far above the tolerance of 3e-5

bool is_forward(const Instruction& i) { return i.phase == Phase::kForward && i.layer != "loss"; }
/// By the reason: a small one may be packed with the loss.
bool is_gradient(const Instruction& i) { return i.reason.find("gradient of ") != std::string::npos; }

/// A hidden layer split by columns, then products split by rows: partial sums of terms of both signs.
constexpr auto kRows =
    "{dense_1/kernel: [null, model], dense_1/bias: [model], dense_2/kernel: [model, null], dense_3/kernel: [model, "
    "null]}";
const std::vector<Mesh> kRowParallel{model_parallel(2, "[2]", "[model]", "null", kRows),
                                     model_parallel(4, "[4]", "[model]", "null", kRows),
                                     model_parallel(4, "[2, 2]", "[data, model]", "data", kRows)};

constexpr auto kBias = "bias_initializer: {RandomNormal: {stddev: 0.8}}";

std::string hidden() { return fmt::format("    - Dense: {{name: dense_1, units: 12, activation: tanh, {}}}\n", kBias); }

/// Two products split by rows, each with something added before they are added: to add it to the partial sums, and
/// reduce once behind the Add, would be cheaper.
std::string two_products(const std::string& options, const std::string& more) {
  std::string layers = hidden();
  for (const int k : {2, 3})
    layers += fmt::format("    - Dense: {{name: dense_{0}, units: 8, inputs: [dense_1], {1}}}\n", k, options) +
              fmt::format(fmt::runtime(more), k);
  return layers;
}

TEST(Faults, fault_03_a_scalar_is_added_once_to_a_partial_sum) {
  const auto given =
      make_case("{x: {shape: [6]}}",
                two_products("use_bias: false", "    - Rescaling: {{name: shift_{0}, scale: 0.5, offset: 0.75}}\n") +
                    "    - Add: {name: add, inputs: [shift_2, shift_3]}\n"
                    "    - Dense: {name: dense_4, units: 4, activation: sigmoid}\n");
  expect_equal_on(given, kRowParallel);
  EXPECT_GT(difference_without(given, kRowParallel[0], is_forward), kSeen);
}

TEST(Faults, fault_03_a_nonlinear_function_sees_the_whole_sum) {
  for (const auto* const activation : {"relu", "gelu", "tanh", "softmax"}) {
    const auto given =
        make_case("{x: {shape: [6]}}",
                  two_products("use_bias: false",
                               fmt::format("    - Activation: {{{{name: act_{{0}}, activation: {}}}}}\n", activation)) +
                      "    - Add: {name: add, inputs: [act_2, act_3]}\n"
                      "    - Dense: {name: dense_4, units: 4}\n");
    expect_equal_on(given, kRowParallel);
    EXPECT_GT(difference_without(given, kRowParallel[0], is_forward), kSeen);
  }
}

TEST(Faults, fault_04_row_parallel_bias_is_added_once_and_its_gradient_is_whole) {
  const auto given = make_case("{x: {shape: [6]}}", two_products(kBias, "") +
                                                        "    - Add: {name: add, inputs: [dense_2, dense_3]}\n"
                                                        "    - Dense: {name: dense_4, units: 4}\n");
  expect_equal_on(given, kRowParallel);
  EXPECT_GT(difference_without(given, kRowParallel[2], is_gradient), kSeen);
}

/// Tokens with a norm whose sequence is split over `model`; gamma and beta are replicated.
constexpr auto kTokens = "{tokens: {shape: [8], dtype: int32}}";
const std::string kNorm =
    "    - Embedding: {name: embedding, input_dim: 12, output_dim: 8}\n"
    "    - LayerNormalization: {name: norm, gamma_initializer: {RandomUniform: {minval: 0.5, maxval: 1.5}}, "
    "beta_initializer: {RandomNormal: {stddev: 0.3}}}\n"
    "    - Dense: {name: dense, units: 12}\n";

test::Case tokens() {
  auto given = make_case(kTokens, kNorm, "{SparseCategoricalCrossentropy: {from_logits: true}}");
  given.classes = 12;
  return given;
}

TEST(Faults, fault_05_norm_gradients_are_reduced_over_a_split_sequence) {
  const std::vector<Mesh> meshes{
      model_parallel(2, "[2]", "[model]", "null", "{}", "output_layout_map: {norm: [null, model, null]}"),
      model_parallel(4, "[2, 2]", "[data, model]", "data", "{}", "output_layout_map: {norm: [data, model, null]}"),
      model_parallel(8, "[2, 4]", "[data, model]", "data", "{}", "output_layout_map: {norm: [data, model, null]}")};
  expect_equal_on(tokens(), meshes);
  EXPECT_GT(difference_without(tokens(), meshes[1], is_gradient), kSeen);
}

TEST(Faults, fault_06_a_norm_over_a_split_dimension_knows_the_distance_of_its_shards_means) {
  // A ramp as bias: the shards' means differ by more than the spread inside a shard.
  Tensors ramp;
  for (int unit = 0; unit < 12; ++unit) ramp["dense_1/bias"].push_back(0.7F * static_cast<float>(unit) - 2);
  const auto given = make_case(
      "{x: {shape: [6]}}",
      "    - Dense: {name: dense_1, units: 12}\n"
      "    - LayerNormalization: {name: norm, gamma_initializer: {RandomUniform: {minval: 0.5, maxval: 1.5}}}\n"
      "    - Dense: {name: dense_2, units: 4}\n");
  constexpr auto kColumns =
      "{dense_1/kernel: [null, model], dense_1/bias: [model], norm/gamma: [model], norm/beta: [model]}";
  const std::vector<Mesh> meshes{
      model_parallel(2, "[2]", "[model]", "null", kColumns, "output_layout_map: {norm: [null, model]}"),
      model_parallel(4, "[4]", "[model]", "null", kColumns, "output_layout_map: {norm: [null, model]}"),
      model_parallel(4, "[2, 2]", "[data, model]", "data", kColumns, "output_layout_map: {norm: [data, model]}")};
  expect_equal_on(given, meshes, ramp);
  EXPECT_GT(difference_without(
                given, meshes[0], [](const auto& i) { return i.layer == "norm" && is_forward(i); }, ramp),
            kSeen);
}

/// Two layers, the first split by columns and the second by rows.
constexpr auto kTwoLayers = "{dense_1/kernel: [null, model], dense_1/bias: [model], dense_2/kernel: [model, null]}";
const std::vector<Mesh> kTensorParallel{model_parallel(2, "[2]", "[model]", "null", kTwoLayers),
                                        model_parallel(4, "[2, 2]", "[data, model]", "data", kTwoLayers)};

/// Layouts among which some split a gradient and some replicate it.
const std::vector<Mesh> kLayouts{
    data_parallel(2),
    data_parallel(4),
    kTensorParallel[0],
    kTensorParallel[1],
    model_parallel(4, "[4]", "[data]", "data", "{dense_1/kernel: [null, data], dense_2/kernel: [data, null]}"),
    model_parallel(4, "[2, 2]", "[data, model]", "[data, model]", "{dense_1/kernel: [null, [model, data]]}"),
    with_zero(data_parallel(2), 1),
    with_zero(data_parallel(4), 2),
    with_zero(kTensorParallel[1], 3)};

test::Case clipped() {
  return make_case("{x: {shape: [6]}}", hidden() + fmt::format("    - Dense: {{name: dense_2, units: 8, {}}}\n", kBias),
                   "mse", "{SGD: {learning_rate: 0.05, momentum: 0.9, global_clipnorm: 0.05}}");
}

double norm_of(const Tensors& gradients) {
  double squares = 0;
  for (const auto& [path, gradient] : gradients)
    for (const auto g : gradient) squares += static_cast<double>(g) * g;
  return std::sqrt(squares);
}

TEST(Faults, fault_07_the_clip_norm_counts_no_replica_and_misses_no_shard) {
  expect_equal_on(clipped(), kLayouts);
  for (const auto& mesh : kLayouts) {
    const auto given = on(clipped(), mesh);
    const auto outcome = test::run(test::prepare(given, given.yaml(), mesh.ranks), 1);
    EXPECT_NEAR(outcome.norms.at(0), norm_of(outcome.gradients), 1e-6 * outcome.norms[0]) << given.distribution;
    EXPECT_GT(outcome.norms[0], 0.5);  // clipping bites
  }
  EXPECT_GT(difference_without(clipped(), kLayouts[2], [](const auto& i) { return i.phase == Phase::kUpdate; }), kSeen);
}

TEST(Faults, fault_07_clipping_gathers_no_gradient) {
  for (const auto& mesh : kLayouts) {
    const auto given = on(clipped(), mesh);
    const auto plan = test::prepare(given, given.yaml(), mesh.ranks).plan;
    const auto& train = plan.programs.at("train");
    for (const auto& i : train.epilogues.at("apply").instructions) {
      const auto* call = std::get_if<partition::CollectiveCall>(&i.what);
      if (call == nullptr) continue;
      for (const auto& segment : call->segments) {
        const auto& v = train.values[static_cast<std::size_t>(segment.in)];
        const bool scalar = elements(v.shape) == 1;
        const bool weight = std::any_of(plan.state.begin(), plan.state.end(), [&](const auto& s) {
          return i.layer.starts_with(s.variable.path) && v.name.find("grad") == std::string::npos;
        });
        EXPECT_TRUE(scalar || (weight && call->kind == partition::CollectiveKind::kAllGather))
            << to_string(call->kind) << " of " << v.name << " in the update: " << i.reason << "\n"
            << given.distribution;
      }
    }
  }
}

TEST(Faults, fault_09_a_mean_divides_by_the_global_count) {
  // Ranks with 3, 3, 1 and no real rows, labels that do not count, weights.
  auto given = make_case("{x: {shape: [6]}}", hidden() + "    - Dense: {name: dense_2, units: 4}\n",
                         "{SparseCategoricalCrossentropy: {from_logits: true, ignore_class: 1}}");
  given.classes = 4;
  const std::vector<Mesh> meshes{data_parallel(2), data_parallel(3), data_parallel(4), with_zero(data_parallel(4), 2),
                                 kTensorParallel[1]};
  expect_equal_on(given, meshes);
  given.sample_weight = true;
  expect_equal_on(given, meshes);
  EXPECT_GT(difference_without(given, meshes[2], [](const auto& i) { return i.phase == Phase::kPrologue; }), kSeen);
}

}  // namespace
}  // namespace tessera::faults
