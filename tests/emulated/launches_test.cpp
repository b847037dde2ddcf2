// What a step of each example queues on a GPU, at the ranks of its first comment. The table of docs/kernels.md is kept
// here.
#include <algorithm>
#include <cstdlib>
#include <cuda_emulator/control.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/mpi_main.h"
#include "support/document.h"
#include "train/session.h"

namespace tessera::train {
namespace {

struct Example {
  std::string name;
  int ranks;
  /// Fewer units, so that no product is large enough to be timed (the emulator's times mean nothing) and the library's
  /// favourite is taken. Rows, and with them how sums are cut, are the example's.
  std::string smaller = {};
};

const std::vector<Example> kExamples{{"digits_mlp", 2},
                                     {"mlp_fsdp", 2, "model.layers.0.Dense.units=256"},
                                     {"mlp_megatron", 2, "model.layers.0.Dense.units=256"},
                                     {"seed_model_axis", 2},
                                     {"seed_mesh_2x4", 8, "model.layers.0.Dense.units=1024"}};

/// The most that a rank has.
std::uint64_t most(comm::World& world, std::uint64_t own) {
  for (const auto& text : world.gather(std::to_string(own))) own = std::max<std::uint64_t>(own, std::stoull(text));
  return own;
}

class Launches : public ::testing::TestWithParam<Example> {};

TEST_P(Launches, OfAStepAreThoseOfTheDocument) {
  auto& world = comm::test_world();
  const auto& [name, ranks, smaller] = GetParam();
  ASSERT_EQ(world.size(), ranks);
  const auto file = TESSERA_SOURCE_DIR "/configs/" + name + ".yaml";
  const auto text = config::read_text(file);
  EXPECT_TRUE(text.starts_with(fmt::format("# mpirun -np {} ", ranks))) << file;
  std::vector<std::string> overrides{"device=cuda"};
  if (!smaller.empty()) overrides.push_back(smaller);
  const auto spec = config::parse_spec(text, file, overrides);
  Session session(spec, world, {.programs = {"train"}, .threads = 1});
  for (std::int64_t step = 1; step <= 2; ++step) {
    cuda_emulator::reset_traffic();
    session.executor().run(
        "train", "apply",
        {.step = step, .iteration = step - 1, .learning_rate = 0.1, .real_rows = spec.fit.batch_size});
  }
  const auto t = cuda_emulator::traffic();
  const auto kernels = most(world, t.launches), products = most(world, t.products), copies = most(world, t.copies),
             collectives = most(world, t.collectives);
  if (world.rank() > 0) return;
  EXPECT_GT(products, 0U);
  EXPECT_GT(collectives, 0U);
  test::expect_row("kernels.md", "launches",
                   fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |", name, ranks, kernels, products, collectives,
                               copies, kernels + products + collectives + copies));
}

INSTANTIATE_TEST_SUITE_P(Examples, Launches, ::testing::ValuesIn(kExamples),
                         [](const auto& example) { return example.param.name; });

}  // namespace
}  // namespace tessera::train
