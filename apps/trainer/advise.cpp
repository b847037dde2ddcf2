#include "train/advise.h"

#include <iostream>

#include "job.h"
#include "report/answers.h"
#include "verbs.h"

namespace tessera::trainer {

ExitCode advise(const Options& options, comm::World& world) {
  const auto spec = load_spec(options, world);
  if (!spec.compile.present)
    fail_at(spec.pos, ExitCode::kConfig, "there is no `compile:`; advise compares training steps");
  if (options.measure && options.ranks > 0 && options.ranks != world.size())
    fail(ExitCode::kConfig, "--measure runs on the ranks of the job ({}), not on --ranks {}; use mpirun -np {}",
         world.size(), options.ranks, options.ranks);
  const auto advice = options.measure ? train::advise_measured(spec, world, session_options(options, {}))
                                      : train::advise(spec, planned_ranks(options, spec, world));
  if (world.rank() != 0) return ExitCode::kDone;
  if (options.json)
    std::cout << report::advice_json(advice);
  else
    report::write_advice(std::cout, advice);
  return ExitCode::kDone;
}

}  // namespace tessera::trainer
