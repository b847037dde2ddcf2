#include "train/verify.h"

#include <iostream>

#include "job.h"
#include "report/answers.h"
#include "verbs.h"

namespace tessera::trainer {

ExitCode verify(const Options& options, comm::World& world) {
  const auto spec = load_spec(options, world);
  if (!spec.compile.present)
    fail_at(spec.pos, ExitCode::kConfig, "there is no `compile:`; verify compares training steps");
  const auto result = train::verify(spec, world, session_options(options, {}), options.steps);
  if (world.rank() == 0) {
    if (options.json)
      std::cout << report::verification_json(result);
    else
      report::write_verification(std::cout, result, options.steps);
  }
  return result.equal() ? ExitCode::kDone : ExitCode::kInternal;
}

}  // namespace tessera::trainer
