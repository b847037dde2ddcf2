// What is drawn at random is the same on every mesh, bit by bit.
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "faults/cases.h"
#include "support/fit_on.h"

namespace tessera::faults {
namespace {

using test::Tensors;

void expect_same_bits(const std::vector<float>& found, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << what;
}

TEST(Faults, fault_08_a_dropout_mask_is_the_same_on_every_layout) {
  const auto given = make_case("{x: {shape: [12]}}",
                               "    - Dropout: {name: first, rate: 0.3}\n"
                               "    - Dense: {name: dense_1, units: 8, activation: tanh}\n"
                               "    - Dropout: {name: second, rate: 0.3}\n"
                               "    - Dense: {name: dense_2, units: 4}\n");
  const std::vector<std::string> watched{"first/dropout", "second/dropout"};
  // Of the real rows; of the second one, what the mask kept: its values come out of a sum.
  const auto masks = [&](const test::Outcome& outcome, std::size_t step) {
    Tensors values = outcome.watched.at(step);
    values["first/dropout"].resize(static_cast<std::size_t>(given.real_rows) * 12);
    values["second/dropout"].resize(static_cast<std::size_t>(given.real_rows) * 8);
    for (auto& v : values["second/dropout"]) v = v != 0 ? 1.0F : 0.0F;
    return values;
  };
  constexpr auto kColumns = "{dense_1/kernel: [null, model], dense_1/bias: [model]}";
  const auto one = test::run(test::prepare(given, given.yaml_of_one_rank(), 1, watched), 2);
  for (const auto& mesh : {
           data_parallel(2),
           data_parallel(4),
           model_parallel(2, "[2]", "[model]", "null", kColumns, "output_layout_map: {first: [null, model]}"),
           model_parallel(4, "[2, 2]", "[data, model]", "data", kColumns, "output_layout_map: {first: [data, model]}"),
           model_parallel(4, "[2, 2]", "[data, model]", "model", "{}"),
           model_parallel(8, "[2, 4]", "[data, model]", "data", kColumns, "output_layout_map: {first: [data, model]}"),
       }) {
    const auto many_ranks = on(given, mesh);
    const auto many = test::run(test::prepare(many_ranks, many_ranks.yaml(), mesh.ranks, watched), 2);
    for (std::size_t step = 0; step < 2; ++step)
      for (const auto& [name, expected] : masks(one, step))
        expect_same_bits(masks(many, step).at(name), expected, name + " on\n" + mesh.distribution);
  }
  const auto& first = masks(one, 0).at("first/dropout");
  const auto dropped = std::count(first.begin(), first.end(), 0.0F);
  EXPECT_GT(dropped, 10);
  EXPECT_LT(dropped, 45);  // of 84, 30%
  EXPECT_NE(masks(one, 0).at("second/dropout"), masks(one, 1).at("second/dropout"));
}

TEST(Faults, fault_14_first_values_do_not_depend_on_the_shards) {
  std::string layers;
  for (const auto* const initializer : {"glorot_uniform", "he_normal", "lecun_normal", "{RandomUniform: {}}",
                                        "{RandomNormal: {stddev: 0.2}}", "{TruncatedNormal: {stddev: 0.2}}"})
    layers += fmt::format(
        "    - Dense: {{units: 20, kernel_initializer: {}, bias_initializer: {{RandomNormal: {{}}}}}}\n", initializer);
  const auto given = make_case("{x: {shape: [20]}}", layers);
  const auto one = test::run(test::prepare(given, given.yaml_of_one_rank(), 1), 0);
  ASSERT_EQ(one.weights.size(), 12u);
  // 20 over 4: boxes begin inside a group of four numbers that are drawn together.
  for (const auto& mesh : {
           data_parallel(4),
           with_zero(data_parallel(4), 3),
           model_parallel(2, "[2]", "[m]", "null", "{.*kernel: [null, m]}"),
           model_parallel(4, "[4]", "[m]", "null", "{.*kernel: [null, m], .*bias: [m]}"),
           model_parallel(4, "[4]", "[m]", "null", "{.*kernel: [m, null]}"),
           model_parallel(4, "[2, 2]", "[d, m]", "d", "{.*kernel: [d, m], .*bias: [[m, d]]}"),
           model_parallel(5, "[5]", "[m]", "null", "{.*kernel: [m, null], .*bias: [m]}"),
       }) {
    const auto many_ranks = on(given, mesh);
    const auto many = test::run(test::prepare(many_ranks, many_ranks.yaml(), mesh.ranks), 0);
    for (const auto& [path, expected] : one.weights)
      expect_same_bits(many.weights.at(path), expected, path + " on\n" + mesh.distribution);
  }
  for (const auto& [path, values] : one.weights)  // no number stands for its neighbours
    EXPECT_GT(std::set<float>(values.begin(), values.end()).size(), values.size() * 9 / 10) << path;
}

TEST(Faults, fault_33_the_shuffled_order_is_one_on_all_meshes) {
  const auto spec_on = [](const Mesh& mesh) {
    return config::parse_spec(
        "version: 1\nseed: 5\nmodel: {inputs: {x: {shape: [4]}}, layers: [{Dense: {name: dense, units: 4}}]}\n"
        "compile: {optimizer: sgd, loss: mse}\ndata: {train: {random: {samples: 45}}}\nfit: {batch_size: 10}\n" +
            mesh.distribution,
        "case.yaml", {});
  };
  const auto one = test::batches_on(1, spec_on({}), 2);
  ASSERT_EQ(one.size(), 10u);
  EXPECT_EQ(one[4].rows, 5);  // ragged
  for (const auto& mesh : {
           data_parallel(2),
           data_parallel(4),
           with_zero(data_parallel(4), 3),
           model_parallel(4, "[2, 2]", "[data, model]", "data", "{}"),
           model_parallel(4, "[2, 2]", "[data, model]", "model", "{}"),
           model_parallel(4, "[2, 2]", "[data, model]", "null", "{}"),
           model_parallel(4, "[2, 2]", "[data, model]", "data", "{}", "data_layout_map: {x: [data, model]}"),
       }) {
    const auto many = test::batches_on(mesh.ranks, spec_on(mesh), 2);
    EXPECT_TRUE(many == one) << mesh.distribution;
  }
  // A sample is known by its first number: each epoch has all of them, in another order.
  const auto order = [&](std::size_t epoch) {
    std::vector<float> samples;
    for (std::size_t step = 5 * epoch; step < 5 * epoch + 5; ++step)
      for (std::int64_t row = 0; row < one[step].rows; ++row)
        samples.push_back(one[step].inputs.at("x")[static_cast<std::size_t>(row) * 4]);
    return samples;
  };
  auto first = order(0), second = order(1);
  EXPECT_NE(first, second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, second);
  EXPECT_EQ(std::set<float>(first.begin(), first.end()).size(), 45u);
}

}  // namespace
}  // namespace tessera::faults
