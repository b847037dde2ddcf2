#include "support/fit_on.h"

#include <mutex>

#include "support/test_device.h"
#include "train/feed.h"
#include "train/fit.h"

namespace tessera::test {

namespace {

config::Spec on_threads(int ranks, config::Spec spec) {
  spec.device = device_of_threads(ranks);
  return spec;
}

}  // namespace

History fit_on(int ranks, const config::Spec& asked, bool comm_thread) {
  const auto spec = on_threads(ranks, asked);
  History result;
  comm::run_on_threads(ranks, [&](comm::World& world) {
    train::Session session(spec, world, {.programs = {"train", "evaluate"}, .threads = 1, .comm_thread = comm_thread});
    History own;
    train::fit(session, own, [] { return false; });
    if (world.rank() == 0) result = std::move(own);
  });
  return result;
}

std::vector<Batch> batches_on(int ranks, const config::Spec& asked, std::int64_t epochs) {
  const auto spec = on_threads(ranks, asked);
  std::vector<Batch> batches;
  std::int64_t padded_rows = 0;
  std::mutex mutex;
  comm::run_on_threads(ranks, [&](comm::World& world) {
    train::Session session(spec, world, {.programs = {"train"}, .threads = 1});
    train::Feed feed(session, "train", "train", {.shuffle = spec.fit.shuffle});
    const auto& plan = session.plan();
    const auto coordinates = plan.mesh.coordinates(world.rank());
    const auto& program = plan.programs.at("train");
    std::size_t index = 0;
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch)
      for (std::int64_t step = 0; step < feed.steps(epoch); ++step, ++index) {
        const auto rows = feed.fill(epoch, step);
        const std::lock_guard lock(mutex);
        padded_rows = session.planning().batch_rows;
        if (batches.size() == index) batches.push_back({rows, {}});
        for (const int input : program.inputs) {
          const auto& v = program.values[static_cast<std::size_t>(input)];  // (micro-batches, rows, ...)
          if (v.dtype != DType::kF32) fail(ExitCode::kInternal, "input {} is not float32", v.name);
          const auto* data = static_cast<const float*>(session.executor().input("train", v.name));
          merge(batches[index].inputs[v.name], {data, data + elements(v.local)},
                mesh::owned(v.layout, plan.mesh, coordinates, v.shape).front(), v.shape, v.name);
        }
      }
  });
  for (auto& batch : batches)
    for (auto& [name, values] : batch.inputs)
      values.resize(values.size() / static_cast<std::size_t>(padded_rows) * static_cast<std::size_t>(batch.rows));
  return batches;
}

}  // namespace tessera::test
