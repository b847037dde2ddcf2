#include <atomic>
#include <cerrno>
#include <cstdlib>

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
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void* malloc(std::size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  ++allocations;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace tessera::train {
namespace {

/// Counts what the process allocates within the steps after the first one. Ranks are threads: they wait for one another
/// at both ends of a step, so that what lies between epochs of one rank is not within a step of another.
class Counter final : public Observer {
 public:
  explicit Counter(comm::World& world) : world_(world) {}

  void epoch_begin(std::int64_t) override { begin(); }
  void step(const StepEvent& event) override {
    const auto now = allocations.load();
    if (event.step > 1) in_steps_ += now - at_begin_;
    begin();
  }
  std::int64_t in_steps() const { return in_steps_; }

 private:
  void begin() {
    world_.barrier();
    at_begin_ = allocations.load();
  }

  comm::World& world_;
  std::int64_t at_begin_ = 0, in_steps_ = 0;
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
  validation: {random: {samples: 40}}
fit: {epochs: 3, batch_size: 16}
)";

// Ranks are threads of one process here, so a step of any of them counts.
std::int64_t allocations_in_steps(int ranks, bool comm_thread) {
  const auto spec = config::parse_spec(kConfig, "case.yaml", {});
  std::atomic<std::int64_t> counted{0};
  comm::run_on_threads(ranks, [&](comm::World& world) {
    Session session(spec, world, {.programs = {"train", "evaluate"}, .threads = 1, .comm_thread = comm_thread});
    report::Observers observers;
    auto counter = std::make_unique<Counter>(world);
    const auto* own = counter.get();
    if (world.rank() == 0)
      observers.add(std::make_unique<report::JsonlWriter>(testing::TempDir() + "allocation.jsonl"));
    observers.add(std::move(counter));
    fit(session, observers, [] { return false; });
    counted += own->in_steps();
  });
  return counted;
}

TEST(Step, AllocatesNothingAfterTheFirst) { EXPECT_EQ(allocations_in_steps(1, false), 0); }

TEST(Step, AllocatesNothingAfterTheFirstOnTwoRanks) { EXPECT_EQ(allocations_in_steps(2, false), 0); }

TEST(Step, AllocatesNothingAfterTheFirstWithACommunicationThread) { EXPECT_EQ(allocations_in_steps(2, true), 0); }

TEST(Step, TheCounterCounts) {
  const auto before = allocations.load();
  std::free(std::malloc(10));
  EXPECT_GT(allocations.load(), before);
}

}  // namespace
}  // namespace tessera::train
