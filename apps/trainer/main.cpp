#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <new>

#include "job.h"
#include "verbs.h"

namespace {

using namespace tessera;

using Verb = ExitCode (*)(const trainer::Options&, comm::World&);
const std::map<std::string, Verb> kVerbs{
    {"train", trainer::train},       {"plan", trainer::plan},       {"advise", trainer::advise},
    {"validate", trainer::validate}, {"verify", trainer::verify},   {"evaluate", trainer::evaluate},
    {"predict", trainer::predict},   {"devices", trainer::devices}, {"schema", trainer::schema},
};

/// Whether this process is the one that speaks, before the world is open.
bool speaks() {
  for (const auto* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const char* rank = std::getenv(name)) return std::string(rank) == "0";
  return true;
}

int finish(const Error& error, bool print) {
  if (print) std::cerr << "error: " << error.what() << std::endl;
  return static_cast<int>(error.code());
}

/// What reaches this place as an Error is the Error of all ranks (train/agree.h); anything else is this rank's alone.
int run(const trainer::Options& options, comm::World& world) {
  std::string sentence = "unknown exception";
  auto code = ExitCode::kInternal;
  try {
    return static_cast<int>(kVerbs.at(options.verb)(options, world));
  } catch (const Error& error) {
    return finish(error, world.rank() == 0);
  } catch (const std::bad_alloc&) {
    code = ExitCode::kOutOfMemory;
    sentence = "out of host memory";
  } catch (const std::exception& error) {
    sentence = error.what();
  } catch (...) {
  }
  if (world.size() > 1) world.abort(static_cast<int>(code), sentence);
  return finish(Error(code, sentence), true);
}

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<comm::World> world;
  trainer::Options options;
  try {
    bool done = false;
    options = trainer::parse_options(argc, argv, done);
    if (done) return 0;
    world = trainer::open_world(&argc, &argv);
  } catch (const Error& error) {
    return finish(error, speaks());
  }
  return run(options, *world);
}
