#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "report/jsonl.h"
#include "report/observers.h"
#include "train/fit.h"

namespace {

std::atomic<std::int64_t> allocations{0};

}  // namespace

// Every allocation of the process passes here: operator new calls malloc.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* malloc(std::size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
}

namespace tessera::train {
namespace {

/// Counts what the steps after the second one of each epoch allocated; the first ones follow an epoch's end.
class Counter final : public Observer {
 public:
  void step(const StepEvent& event) override {
    const auto now = allocations.load();
    if (event.step_in_epoch > 2) in_steps_ += now - last_;
    last_ = allocations.load();
  }
  std::int64_t in_steps() const { return in_steps_; }

 private:
  std::int64_t last_ = 0, in_steps_ = 0;
};

constexpr auto kConfig = R"(
version: 1
model:
  inputs: {x: {shape: [16]}}
  layers:
    - Dense: {name: dense_1, units: 32, activation: relu}
    - LayerNormalization: {name: norm}
    - Dropout: {name: dropout, rate: 0.2}
    - Dense: {name: dense_2, units: 8}
distribution:
  ModelParallel:
    mesh: {shape: [-1], axis_names: [batch]}
    layout_map: {dense_1/kernel: [batch, null]}
compile:
  optimizer: {AdamW: {learning_rate: {CosineDecay: {initial_learning_rate: 0.01, decay_steps: 100}}, global_clipnorm: 1.0}}
  loss: {SparseCategoricalCrossentropy: {from_logits: true}}
  metrics: [accuracy]
data:
  train: {random: {samples: 156}}
fit: {epochs: 2, batch_size: 16}
)";

// Ranks are threads of one process here, so a step of any of them counts.
std::int64_t allocations_in_steps(int ranks) {
  const auto spec = config::parse_spec(kConfig, "case.yaml", {});
  std::atomic<std::int64_t> counted{0};
  comm::run_on_threads(ranks, [&](comm::World& world) {
    Session session(spec, world, {.programs = {"train"}, .threads = 1});
    report::Observers observers;
    auto counter = std::make_unique<Counter>();
    const auto* own = counter.get();
    if (world.rank() == 0)
      observers.add(std::make_unique<report::JsonlWriter>(testing::TempDir() + "allocation.jsonl"));
    observers.add(std::move(counter));
    fit(session, observers, [] { return false; });
    counted += own->in_steps();
  });
  return counted;
}

TEST(Step, AllocatesNothingAfterTheFirst) { EXPECT_EQ(allocations_in_steps(1), 0); }

TEST(Step, AllocatesNothingAfterTheFirstOnTwoRanks) { EXPECT_EQ(allocations_in_steps(2), 0); }

TEST(Step, TheCounterCounts) {
  const auto before = allocations.load();
  std::free(std::malloc(10));
  EXPECT_GT(allocations.load(), before);
}

}  // namespace
}  // namespace tessera::train
