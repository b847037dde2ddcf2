#pragma once

#include <exception>
#include <string>
#include <vector>

#include "comm/mpi/check.h"

namespace tessera::comm {

/// MPI from MPI_Init_thread to MPI_Finalize, and who runs where. It isn't finalised while an exception is under way:
/// the others would be waited for, who wait for this rank.
class Session {
 public:
  /// `ranks_per_node`: see MpiOptions.
  Session(int* argc, char*** argv, int ranks_per_node);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  bool unwinding() const { return std::uncaught_exceptions() > exceptions_; }

  MPI_Comm world = MPI_COMM_NULL;
  MPI_Comm node = MPI_COMM_NULL;  // ranks that share memory
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on the host
  int node_rank = 0, node_size = 1;
  std::string host;
  std::vector<std::string> hosts;  // by rank
  std::vector<int> node_of;        // by rank: the world rank of the first rank of its node
  std::vector<int> node_rank_of;   // by rank
  std::vector<long> pids;          // by rank; 0 where a look at the process would tell nothing

 private:
  void find_neighbours(int ranks_per_node);
  void find_processes(MPI_Comm host_ranks);

  int exceptions_ = std::uncaught_exceptions();
};

/// Whether the process of this id runs on this host.
bool is_running(long pid);

}  // namespace tessera::comm
