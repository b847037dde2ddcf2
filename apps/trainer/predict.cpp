#include "train/predict.h"

#include <filesystem>
#include <iostream>

#include "job.h"
#include "verbs.h"

namespace tessera::trainer {

ExitCode predict(const Options& options, comm::World& world) {
  const auto spec = with_weights(options, load_spec(options, world), world);
  train::Session session(spec, world, session_options(options, {"predict"}));
  print_warnings(world, session.warnings());
  train::Feed feed(session, "predict", data_name(options, spec), {.restart = true, .every_row = true});
  const auto files = train::predict(session, feed, (std::filesystem::path(run_folder(spec)) / "predict").string());
  append_events(spec, world, [&](train::Observer& observer) { observer.end(session.end_event(feed.steps(0))); });
  if (world.rank() == 0)
    for (const auto& file : files) std::cout << file << '\n';
  return ExitCode::kDone;
}

}  // namespace tessera::trainer
