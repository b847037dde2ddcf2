#include "train/evaluate.h"

#include <iostream>

#include "job.h"
#include "report/answers.h"
#include "report/progress.h"
#include "verbs.h"

namespace tessera::trainer {

ExitCode evaluate(const Options& options, comm::World& world) {
  const auto spec = with_weights(options, load_spec(options, world), world);
  if (!spec.compile.present)
    fail_at(spec.pos, ExitCode::kConfig, "there is no `compile:`; say which loss and metrics to evaluate");
  train::Session session(spec, world, session_options(options, {"evaluate"}));
  print_warnings(world, session.warnings());
  const auto on = data_name(options, spec);
  train::Feed feed(session, "evaluate", on, {.restart = true, .every_row = true});
  const auto logs = train::evaluate(session, feed);
  append_events(spec, world, [&](train::Observer& observer) {
    observer.evaluate(on, logs);
    observer.end(session.end_event(feed.steps(0)));
  });
  if (world.rank() != 0) return ExitCode::kDone;
  if (options.json)
    std::cout << report::logs_json(logs);
  else
    std::cout << on << ": " << report::logs_line(logs) << '\n';
  return ExitCode::kDone;
}

}  // namespace tessera::trainer
