// mpirun -np 2 allreduce_bench [MiB]: times of one all-reduce of float32, in turns, and small ones' latency.
#define OMPI_SKIP_MPICXX 1
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include <mpi.h>

#include "comm/communicator.h"

namespace tessera::comm {
namespace {

double milliseconds(const std::function<void()>& body) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  body();
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  double slowest = time.count();
  MPI_Allreduce(MPI_IN_PLACE, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

double best(const std::vector<double>& times) { return *std::min_element(times.begin(), times.end()); }

struct Contender {
  const char* name;
  std::function<void()> body;
  std::vector<double> times;
};

void run(World& world, std::int64_t bytes) {
  const auto count = bytes / 4;
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto& comm = world.communicator(ranks);
  auto* region = static_cast<float*>(world.communication_region(2 * bytes));
  std::vector<float> in(static_cast<std::size_t>(count), 1), out(in.size());
  std::fill_n(region, 2 * count, 0.F);
  const auto ours = [&](const float* from, float* to, std::int64_t n) {
    return [&comm, from, to, n] { comm.all_reduce({{from, to, n}}, DType::kF32, Reduce::kSum); };
  };
  Contender contenders[] = {
      {"memcpy", [&] { std::memcpy(out.data(), in.data(), static_cast<std::size_t>(bytes)); }, {}},
      {"MPI_Allreduce",
       [&] { MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); },
       {}},
      {"ours, region, in place", ours(region, region, count), {}},
      {"ours, region", ours(region, region + count, count), {}},
      {"ours, outside", ours(in.data(), out.data(), count), {}},
      {"ours, outside, in place", ours(out.data(), out.data(), count), {}}};
  for (int turn = 0; turn < 11; ++turn) {
    for (auto& contender : contenders) contender.times.push_back(milliseconds(contender.body));
  }
  const double copy = best(contenders[0].times), mpi = best(contenders[1].times);
  if (world.rank() == 0) std::printf("all_reduce of %lld MiB, %d ranks\n", bytes / (1LL << 20), world.size());
  for (const auto& [name, body, times] : contenders) {
    const double time = best(times);
    if (world.rank() == 0) {
      std::printf("  %-24s %8.2f ms best, %8.2f median   %5.2f x MPI_Allreduce, %5.2f x memcpy\n", name, time,
                  median(times), time / mpi, time / copy);
    }
  }
  constexpr int kCalls = 2000;
  for (const std::int64_t n : {2, 1024, 16384}) {
    const auto repeat = [&](const std::function<void()>& body) {
      return 1000 / double{kCalls} * milliseconds([&] {
               for (int k = 0; k < kCalls; ++k) body();
             });
    };
    const double us = repeat(ours(in.data(), out.data(), n)), direct = repeat(ours(region, region, n));
    const double theirs =
        repeat([&] { MPI_Allreduce(in.data(), out.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
    if (world.rank() == 0) {
      std::printf("  %6lld B: ours %.2f us, in the region %.2f us, MPI_Allreduce %.2f us\n", 4LL * n, us, direct,
                  theirs);
    }
  }
}

}  // namespace
}  // namespace tessera::comm

int main(int argc, char** argv) {
  const auto world = tessera::comm::make_mpi_world(&argc, &argv);
  tessera::comm::run(*world, (argc > 1 ? std::atoll(argv[1]) : 64) << 20);
}
