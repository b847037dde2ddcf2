#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/mpi/check.h"
#include "comm/node/watch.h"

namespace tessera::comm {

/// Messages between ranks that are under way together. The buffers must stay until wait() has returned.
class Messages {
 public:
  Messages(MPI_Comm comm, const Watch& watch, bool crowded) : comm_(comm), watch_(watch), spin_(!crowded) {}

  /// `rank`: in the world. Empty messages are left out on both sides.
  void send(const void* data, std::int64_t bytes, int rank, int tag);
  void receive(void* data, std::int64_t bytes, int rank, int tag);

  /// A non-blocking collective over the world that was started with `request`.
  void add(MPI_Request request);

  /// Waits for all. `what`: the name of the collective, for the sentence if a rank doesn't come.
  void wait(const char* what);

 private:
  static constexpr int kEveryone = -1;

  MPI_Request& next(int peer);
  void look(const char* what, double seconds);

  MPI_Comm comm_;
  const Watch& watch_;
  bool spin_;
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;  // of the requests
  std::vector<int> missing_;
};

}  // namespace tessera::comm
