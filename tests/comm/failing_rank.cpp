// mpirun -np 3 failing_rank HOW: all-reduces in which rank 1 fails in this way; failure_test starts it.
#include <chrono>
#include <cstdio>
#include <numeric>
#include <signal.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "comm/communicator.h"
#include "core/error.h"

namespace tessera::comm {
namespace {

void fail_somehow(Communicator& comm, const std::string& how) {
  if (how == "killed") kill(getpid(), SIGKILL);
  if (how == "ends") _exit(0);
  if (how == "slow") std::this_thread::sleep_for(std::chrono::seconds(30));
  if (how == "throws") fail(ExitCode::kData, "row 17 of x.npy is not a number");
  if (how == "differs") comm.barrier();
}

int run(World& world, const std::string& how) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto& comm = world.communicator(ranks);
  Context context{"all_reduce of block_3/up/kernel's gradient", 412, 0};
  world.set_context(&context);
  world.set_deadline(how == "slow" ? 1 : 120);
  std::vector<float> x(1 << 16);
  try {
    for (context.step = 1; context.step <= 20; ++context.step) {
      if (context.step == 8 && world.rank() == 1) fail_somehow(comm, how);
      comm.all_reduce({{x.data(), x.data(), std::ssize(x)}}, DType::kF32, Reduce::kSum);
    }
  } catch (const Error& e) {
    world.abort(static_cast<int>(e.code()), e.what());
  }
  return 0;
}

}  // namespace
}  // namespace tessera::comm

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  try {
    const auto world = tessera::comm::make_mpi_world(&argc, &argv);
    if (how == "leaves") {  // an exception ends the world, not abort()
      if (world->rank() == 1) tessera::fail(tessera::ExitCode::kCheckpoint, "no such checkpoint");
      return tessera::comm::run(*world, how);
    }
    return tessera::comm::run(*world, how);
  } catch (const tessera::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return static_cast<int>(e.code());
  }
}
