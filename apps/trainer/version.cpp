#include <iostream>

#include "device/cpu.h"
#include "verbs.h"

namespace tessera::trainer {

void print_version() {
  const auto cpu = device::cpu_features();
  std::cout << "trainer " << TESSERA_VERSION << '\n'
            << comm::mpi_version() << '\n'
            << "oneDNN " << cpu.onednn << '\n'
            << "OpenBLAS " << cpu.openblas << '\n';
}

}  // namespace tessera::trainer
