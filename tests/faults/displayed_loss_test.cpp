// What the run shows and how it ends are the same on every mesh.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "faults/cases.h"
#include "support/fit_on.h"
#include "train/fit.h"

namespace tessera::faults {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

config::Spec spec_of(const Mesh& mesh) {
  return config::parse_spec(R"(version: 1
seed: 3
model:
  inputs: {x: {shape: [12]}}
  layers:
    - Dense: {name: dense_1, units: 8, activation: tanh, bias_initializer: {RandomNormal: {stddev: 0.8}}}
    - Dense: {name: dense_2, units: 4, bias_initializer: {RandomNormal: {stddev: 0.8}}}
compile: {optimizer: {SGD: {learning_rate: 0.1, momentum: 0.9}}, loss: mse, metrics: [mae]}
data: {train: {random: {samples: 45}}, validation: {random: {samples: 21}}}
fit: {epochs: 2, batch_size: 14}
)" + mesh.distribution,
                            "case.yaml", {});
}

TEST(Faults, fault_13_the_displayed_loss_is_that_of_one_rank_on_every_pair_of_axes) {
  const auto one = test::fit_on(1, spec_of({}));
  ASSERT_EQ(one.batch_losses.size(), 8u);
  const std::vector<std::string> axes{"a", "b", "c"};
  std::vector<Mesh> meshes;
  for (const auto& first : axes)
    for (const auto& second : axes) {
      if (first == second) continue;
      const auto rules =
          fmt::format("{{dense_1/kernel: [null, {0}], dense_1/bias: [{0}], dense_2/kernel: [{0}, null]}}", second);
      meshes.push_back(model_parallel(8, "[2, 2, 2]", "[a, b, c]", first, rules));
      meshes.push_back(model_parallel(8, "[2, 2, 2]", "[a, b, c]", fmt::format("[{}, {}]", first, second), "{}"));
    }
  for (const auto& mesh : meshes) {
    SCOPED_TRACE(mesh.distribution);
    const auto many = test::fit_on(mesh.ranks, spec_of(mesh));
    ASSERT_EQ(many.batch_losses.size(), one.batch_losses.size());
    for (std::size_t k = 0; k < one.batch_losses.size(); ++k)
      EXPECT_NEAR(many.batch_losses[k], one.batch_losses[k], 1e-5 * one.batch_losses[k]) << "step " << k + 1;
    for (std::size_t epoch = 0; epoch < one.history.size(); ++epoch)
      for (const auto& [name, value] : one.history[epoch])
        EXPECT_NEAR(many.history[epoch].at(name), value, 1e-5 * value) << name << " of epoch " << epoch;
  }
}

/// Puts what is no number into one variable of the last rank after a step.
class Poison final : public train::Observer {
 public:
  Poison(train::Session& session, std::string path, std::int64_t step)
      : session_(session), path_(std::move(path)), step_(step) {}
  void step(const train::StepEvent& event) override {
    last_ = event.step;
    if (event.step != step_ || session_.world().rank() != session_.world().size() - 1) return;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    session_.executor().write_state(path_, 0, sizeof nan, &nan);
  }
  std::int64_t last() const { return last_; }

 private:
  train::Session& session_;
  std::string path_;
  std::int64_t step_, last_ = 0;
};

TEST(Faults, fault_35_a_loss_that_is_no_number_stops_the_run_with_step_and_first_bad_variable) {
  for (const auto& mesh :
       {Mesh{}, model_parallel(2, "[2]", "[m]", "null", "{dense_1/kernel: [null, m], dense_2/kernel: [null, m]}")}) {
    // dense_1 stands still, so it stays finite: the first bad variable is that of dense_2, on the last rank only.
    auto spec = spec_of(mesh);
    for (auto& layer : spec.model.layers)
      if (layer.name == "dense_1")
        config::add_entry(layer.arguments, "trainable", config::bool_node(false, layer.pos), layer.pos);
    std::vector<std::int64_t> last(static_cast<std::size_t>(mesh.ranks));
    try {
      comm::run_on_threads(mesh.ranks, [&](comm::World& world) {
        train::Session session(spec, world, {.programs = {"train", "evaluate"}, .threads = 1});
        Poison poison(session, "dense_2/kernel", 2);
        const auto body = [&] { train::fit(session, poison, [] { return false; }); };
        try {
          body();
        } catch (...) {
          last[static_cast<std::size_t>(world.rank())] = poison.last();
          throw;
        }
      });
      FAIL() << "trained on";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kNotFinite);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("step 3: the loss is not finite"), HasSubstr("'dense_2/kernel'")));
    }
    EXPECT_THAT(last, ::testing::Each(3));  // no rank went on, none stopped before
  }
}

}  // namespace
}  // namespace tessera::faults
