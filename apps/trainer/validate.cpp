#include <iostream>

#include "job.h"
#include "partition/plan.h"
#include "train/agree.h"
#include "train/feed.h"
#include "train/planning.h"
#include "train/weights.h"
#include "verbs.h"

namespace tessera::trainer {

ExitCode validate(const Options& options, comm::World& world) {
  const auto spec = load_spec(options, world);
  std::vector<std::string> warnings;
  std::int64_t ranks = 0;
  train::agree(world, [&] {
    ranks = planned_ranks(options, spec, world);
    const auto planned = train::plan_run(spec, ranks, {.programs = train::possible_programs(spec)});
    for (const auto& [name, program] : planned.plan.programs)
      for (const auto& violation : partition::check(planned.plan, program))
        fail(ExitCode::kInternal, "the plan of program {} is not sound: {}", name, violation);
    const auto& model = planned.models.at(spec.compile.present ? "train" : "predict");
    for (const auto& [on, data] : spec.data) data::Dataset(data, train::fields_of(model.main, data), spec.seed);
    if (!spec.model.load_weights.empty())
      train::check_weights(planned.plan, spec.model.load_weights, spec.model.load_weights_pos);
    warnings = planned.plan.warnings;
  });
  print_warnings(world, warnings);
  if (world.rank() == 0)
    std::cout << options.config << " is valid for " << ranks << (ranks == 1 ? " rank\n" : " ranks\n");
  return ExitCode::kDone;
}

}  // namespace tessera::trainer
