#include <csignal>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <unistd.h>

#include "job.h"
#include "verbs.h"

namespace {

using namespace tessera;

using Verb = ExitCode (*)(const trainer::Options&, comm::World&);
const std::map<std::string, Verb> kVerbs{
    {"train", trainer::train},       {"plan", trainer::plan},       {"advise", trainer::advise},
    {"validate", trainer::validate}, {"verify", trainer::verify},   {"evaluate", trainer::evaluate},
    {"predict", trainer::predict},   {"devices", trainer::devices}, {"schema", trainer::schema},
    {"doctor", trainer::doctor},
};

/// Whether this process speaks for its job, as the launcher numbers it: processes that MPI does not bring together are
/// all rank 0 of a world of their own. Before MPI begins: it sets these variables too.
bool speaks_for_job() {
  for (const auto* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* rank = std::getenv(name)) return std::string(rank) == "0";
  return true;
}

/// A standard stream that is closed would be the next file that is opened: weights with progress written over them.
void open_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDWR);  // takes the lowest number that is free
}

/// A job's time may be up while it starts: what comes before `train` listens waits (train/signals.h).
void hold_sigusr1() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

/// An answer that was cut off is none.
void flush_answer() {
  std::cout.flush();
  if (!std::cout) fail(ExitCode::kData, "can't write to standard output; is the disk full?");
}

// In one write: a launcher puts its own words between two.
int finish(const Error& error, bool print) {
  if (print) std::cerr << "error: " + std::string(error.what()) + "\n" << std::flush;
  return static_cast<int>(error.code());
}

/// What reaches this place as an Error is the Error of all ranks (train/agree.h); anything else is this rank's alone.
/// The command line is read when the world is open: a rank that ends before it has ends the job, unsaid.
int run(int argc, char** argv, comm::World& world, bool speaks) {
  std::string sentence = "unknown exception";
  auto code = ExitCode::kInternal;
  try {
    const auto options = trainer::parse_options(argc, argv, world.rank() == 0 && speaks);
    if (options) trainer::check_launcher(*options, world);
    const auto answer = options ? kVerbs.at(options->verb)(*options, world) : ExitCode::kDone;
    flush_answer();  // of rank 0: no other has one
    return static_cast<int>(answer);
  } catch (const Error& error) {
    return finish(error, world.rank() == 0 && speaks);
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
  open_standard_streams();
  hold_sigusr1();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit of its size is an error of the write
  const bool speaks = speaks_for_job();
  std::unique_ptr<comm::World> world;
  try {
    world = trainer::open_world(&argc, &argv);
  } catch (const Error& error) {
    return finish(error, speaks);
  }
  return run(argc, argv, *world, speaks);
}
