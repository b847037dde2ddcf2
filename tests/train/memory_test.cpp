// Trains the examples through MPI and compares the memory of each rank with the plan, in every step.
#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "comm/mpi_main.h"
#include "train/fit.h"

namespace tessera::train {
namespace {

constexpr std::int64_t kSlack = 32'000'000;

/// Memory of this process alone and its share of what it shares: Pss_Anon and Pss_Shmem of /proc/self/smaps_rollup. A
/// page that k processes have touched counts 1/k for each; pages of files, the libraries' code among them, don't count.
std::int64_t own_bytes() {
  std::ifstream in("/proc/self/smaps_rollup");
  std::int64_t sum = 0;
  int found = 0;
  for (std::string word; in >> word;) {
    if (word != "Pss_Anon:" && word != "Pss_Shmem:") continue;
    std::int64_t kib = 0;
    in >> kib;
    sum += kib * 1024;
    ++found;
  }
  TESSERA_CHECK(found == 2, "/proc/self/smaps_rollup has no Pss_Anon and Pss_Shmem");
  return sum;
}

class Sampler final : public Observer {
 public:
  explicit Sampler(std::int64_t most) : most_(most) {}
  void step(const StepEvent& event) override {
    const auto now = own_bytes();
    EXPECT_LT(now, most_) << "in step " << event.step;
    peak_ = std::max(peak_, now);
    ++samples_;
  }
  std::int64_t peak() const { return peak_; }
  std::int64_t samples() const { return samples_; }

 private:
  std::int64_t most_, peak_ = 0, samples_ = 0;
};

class Memory : public testing::TestWithParam<const char*> {};

// Alone in its process: what an earlier run leaves behind would count.
TEST_P(Memory, StaysWithinThePlanInEveryStep) {
  auto& world = comm::test_world();
  const auto file = std::string(TESSERA_SOURCE_DIR "/configs/") + GetParam() + ".yaml";
  const auto spec = config::parse_spec(config::read_text(file), file, {"fit.epochs=1"});
  const auto baseline = own_bytes();
  std::vector<std::string> programs{"train"};
  if (spec.data.contains("validation")) programs.emplace_back("evaluate");
  Session session(spec, world, {.programs = programs});
  std::int64_t allocated = 0;
  for (int pool = 0; pool < partition::kPoolCount; ++pool)
    allocated += session.executor().pool_bytes(static_cast<partition::Pool>(pool));
  const auto planned = planned_bytes(session.plan());
  EXPECT_EQ(allocated, planned);
  Sampler sampler(baseline + planned + kSlack);
  const auto result = fit(session, sampler, [] { return false; });
  EXPECT_EQ(sampler.samples(), result.steps);
  const auto lines =
      world.gather(fmt::format("baseline {:.1f}, planned {:.1f}, peak {:.1f} MB", static_cast<double>(baseline) * 1e-6,
                               static_cast<double>(planned) * 1e-6, static_cast<double>(sampler.peak()) * 1e-6));
  for (std::size_t rank = 0; world.rank() == 0 && rank < lines.size(); ++rank)
    fmt::print("{}, rank {}: {}\n", GetParam(), rank, lines[rank]);
}

INSTANTIATE_TEST_SUITE_P(Examples, Memory, testing::Values("digits_mlp", "mlp_fsdp", "mlp_megatron", "seed_model_axis"),
                         [](const auto& example) { return std::string(example.param); });

}  // namespace
}  // namespace tessera::train
