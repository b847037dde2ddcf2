#include <iostream>

#include <fmt/format.h>

#include "core/text.h"
#include "data/schedule.h"
#include "job.h"
#include "partition/plan.h"
#include "train/agree.h"
#include "train/feed.h"
#include "train/planning.h"
#include "train/process_memory.h"
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
    for (const auto& [on, data] : spec.data) {
      const data::Dataset dataset(data, train::fields_of(model.main, data), spec.seed);
      const auto remainder = on == "train" ? spec.fit.remainder : config::FitSpec::Remainder::kPad;
      data::Schedule(dataset.samples(),
                     {.batch_size = spec.fit.batch_size, .remainder = remainder, .pos = spec.fit.pos});
    }
    if (!spec.model.load_weights.empty())
      train::check_weights(planned.plan, spec.model.load_weights, spec.model.load_weights_pos);
    warnings = planned.plan.warnings;
    if (spec.compile.present && !spec.data.contains("train"))
      warnings.emplace_back("there is no `data: train:`; only plan, advise and validate work without");
    const auto run = train::plan_run(spec, ranks, {.programs = train::training_programs(spec)});
    if (const auto bytes = train::planned_bytes(run.plan), free = train::available_bytes();
        spec.hardware.empty() && bytes > free)
      warnings.push_back(fmt::format("a rank needs {}, and this node has {} free",
                                     human_bytes(static_cast<double>(bytes)), human_bytes(static_cast<double>(free))));
  });
  print_warnings(world, warnings);
  if (world.rank() == 0)
    std::cout << options.config << " is valid for " << ranks << (ranks == 1 ? " rank\n" : " ranks\n");
  return ExitCode::kDone;
}

}  // namespace tessera::trainer
