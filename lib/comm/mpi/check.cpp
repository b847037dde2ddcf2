#include "comm/mpi/check.h"

#include "comm/host.h"
#include "core/error.h"

namespace tessera::comm {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  int rank = -1;
  MPI_Error_string(code, text, &length);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fail(ExitCode::kPeerLost, "rank {} on {}: {} failed: {}", rank, host_name(), call, text);
}

}  // namespace tessera::comm
