#include <algorithm>
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
  const auto ranks = planned_ranks(options, spec, world);
  auto planned = train::plan_run(spec, ranks, planning);
  // Memory is what `train` allocates; evaluate and predict, shown beside it, run in processes of their own.
  const auto run = train::plan_run(spec, ranks, {.programs = train::training_programs(spec)});
  std::ranges::copy(run.plan.pool_bytes, planned.plan.pool_bytes);
  if (options.json)
    std::cout << report::plan_json(planned.plan);
  else
    report::write_tables(std::cout, planned.plan, options.explain);
  return ExitCode::kDone;
}

}  // namespace tessera::trainer
