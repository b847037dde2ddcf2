#include "comm/mpi/session.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <signal.h>
#include <unistd.h>

#include "comm/host.h"
#include "core/error.h"

namespace tessera::comm {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

template <typename T>
std::vector<T> gather_all(const T& own, MPI_Comm comm, int size) {
  std::vector<T> all(static_cast<std::size_t>(size));
  check(MPI_Allgather(&own, sizeof(T), MPI_BYTE, all.data(), sizeof(T), MPI_BYTE, comm), "MPI_Allgather");
  return all;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

}  // namespace

bool is_running(long pid) { return kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM; }

Session::Session(int* argc, char*** argv, int ranks_per_node) {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
  rank = rank_in(world);
  size = size_of(world);
  host = host_name();
  if (level < MPI_THREAD_SERIALIZED) {
    fail(ExitCode::kConfig, "this MPI does not support threads (MPI_THREAD_SERIALIZED): use another build of Open MPI");
  }
  find_neighbours(ranks_per_node);
}

void Session::find_neighbours(int ranks_per_node) {
  if (const auto text = environment("TESSERA_RANKS_PER_NODE"); ranks_per_node == 0 && !text.empty()) {
    const auto* const end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, ranks_per_node);
    if (error != std::errc() || last != end || ranks_per_node <= 0)
      fail(ExitCode::kConfig, "TESSERA_RANKS_PER_NODE is '{}': a number above 0 is needed", text);
  }
  MPI_Comm host_ranks = MPI_COMM_NULL;
  check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host_ranks), "MPI_Comm_split_type");
  local_rank = rank_in(host_ranks);
  local_size = size_of(host_ranks);
  const int color = ranks_per_node > 0 ? local_rank / ranks_per_node : 0;
  check(MPI_Comm_split(host_ranks, color, rank, &node), "MPI_Comm_split");
  node_rank = rank_in(node);
  node_size = size_of(node);

  int first = rank;
  check(MPI_Bcast(&first, 1, MPI_INT, 0, node), "MPI_Bcast");
  node_of = gather_all(first, world, size);
  node_rank_of = gather_all(node_rank, world, size);
  std::array<char, 256> name = {};
  std::strncpy(name.data(), host.c_str(), name.size() - 1);
  for (const auto& other : gather_all(name, world, size)) hosts.emplace_back(other.data());
  find_processes(host_ranks);
  check(MPI_Comm_free(&host_ranks), "MPI_Comm_free");
}

void Session::find_processes(MPI_Comm host_ranks) {
  struct Process {
    int rank;
    long pid;
  };
  pids.assign(static_cast<std::size_t>(size), 0);
  const auto processes = gather_all(Process{rank, static_cast<long>(getpid())}, host_ranks, local_size);
  // Ranks in containers of their own don't see each other's processes.
  const bool visible = std::all_of(processes.begin(), processes.end(), [](const auto& p) { return is_running(p.pid); });
  for (const auto& process : processes) {
    if (visible) pids[static_cast<std::size_t>(process.rank)] = process.pid;
  }
  check(MPI_Barrier(host_ranks), "MPI_Barrier");  // all have looked before one can end
}

Session::~Session() {
  if (unwinding()) return;
  MPI_Comm_free(&node);
  MPI_Comm_free(&world);
  MPI_Finalize();
}

}  // namespace tessera::comm
