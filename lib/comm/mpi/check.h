#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace tessera::comm {

/// Throws Error (peer lost) with call, rank, host and MPI's text, unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

}  // namespace tessera::comm
