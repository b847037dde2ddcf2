#pragma once

#include <functional>
#include <string>

namespace tessera::comm {

/// A launcher whose process manager this MPI doesn't speak starts every process as a world of its own (srun without
/// PMIx), and a batch script that starts the program without one has one rank. `whole_job`: whether that is a mistake.
/// `variable(name)`: of the environment, "" where unset. Returns "" or the sentence with the fix.
std::string launcher_mismatch(int mpi_size, bool whole_job, const std::function<std::string(const char*)>& variable);

}  // namespace tessera::comm
