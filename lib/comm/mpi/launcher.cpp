#include "comm/mpi/launcher.h"

#include <string_view>

#include <fmt/format.h>

namespace tessera::comm {

std::string launcher_mismatch(int mpi_size, bool whole_job, const std::function<std::string(const char*)>& variable) {
  struct Launcher {
    const char* variable;
    const char* fix;
  };
  // The innermost launcher first: mpirun inside of a Slurm allocation may use a part of its tasks.
  const Launcher launchers[] = {
      {"OMPI_COMM_WORLD_SIZE", "start it with the mpirun of the Open MPI that it is linked with (ldd shows which)"},
      {"PMI_SIZE", "start it with the mpirun of the Open MPI that it is linked with, or with srun --mpi=pmix"},
      {"SLURM_STEP_NUM_TASKS", "start it with srun --mpi=pmix (srun --mpi=list shows what there is), or with mpirun"},
      {"SLURM_NTASKS", "in a batch script start it with srun --mpi=pmix or mpirun"}};
  for (const auto& [name, fix] : launchers) {
    const auto text = variable(name);
    if (text.empty()) continue;
    if (name == std::string_view("SLURM_NTASKS") && !whole_job) return "";
    if (text == std::to_string(mpi_size)) return "";
    return fmt::format("{} is {}, but MPI sees {} rank{}: the launcher and MPI do not understand each other; {}", name,
                       text, mpi_size, mpi_size == 1 ? "" : "s", fix);
  }
  return "";
}

}  // namespace tessera::comm
