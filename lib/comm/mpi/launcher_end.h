#pragma once

namespace tessera::comm {

/// Before a job is aborted: lets a process of its own end this rank's mpirun or orted if that still runs in `seconds`.
/// Open MPI waits for the daemon of a host that is out of reach as long as TCP does, a quarter of an hour. Nothing is
/// done where another program started the rank.
void end_launcher_after(double seconds);

}  // namespace tessera::comm
