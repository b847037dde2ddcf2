#pragma once

#include "comm/communicator.h"
#include "core/error.h"
#include "options.h"

namespace tessera::trainer {

// Each verb: docs/cli.md. They throw the same Error on all ranks.
ExitCode train(const Options& options, comm::World& world);
ExitCode plan(const Options& options, comm::World& world);
ExitCode advise(const Options& options, comm::World& world);
ExitCode validate(const Options& options, comm::World& world);
ExitCode verify(const Options& options, comm::World& world);
ExitCode evaluate(const Options& options, comm::World& world);
ExitCode predict(const Options& options, comm::World& world);
ExitCode devices(const Options& options, comm::World& world);
ExitCode doctor(const Options& options, comm::World& world);
ExitCode schema(const Options& options, comm::World& world);

void print_version();

}  // namespace tessera::trainer
