#include <iostream>

#include "job.h"
#include "report/plan_json.h"
#include "report/plan_tables.h"
#include "train/planning.h"
#include "verbs.h"

namespace tessera::trainer {

ExitCode plan(const Options& options, comm::World& world) {
  const auto spec = load_spec(options, world);
  if (world.rank() != 0) return ExitCode::kDone;
  train::PlanningOptions planning{.programs = train::possible_programs(spec)};
  planning.explain = options.explain;
  const auto planned = train::plan_run(spec, planned_ranks(options, spec, world), planning);
  if (options.json)
    std::cout << report::plan_json(planned.plan);
  else
    report::write_tables(std::cout, planned.plan, options.explain);
  return ExitCode::kDone;
}

}  // namespace tessera::trainer
