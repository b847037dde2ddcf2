#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "cuda_emulator/control.h"

namespace tessera::cuda_emulator {

/// What the environment chose; control.h's functions change it afterwards.
struct Settings {
  int gpus = 8;
  std::size_t memory = std::size_t(4) << 30;  // bytes of a device
  int driver;                                 // the newest CUDA that the driver knows, as in cudaDriverGetVersion
  StreamOrder streams = StreamOrder::kRandom;
  ThreadOrder threads = ThreadOrder::kRandom;
  unsigned seed = 1;
  std::chrono::milliseconds patience{20};
  bool epilogues = true;  // cublasLt has others than the default one
};

Settings& settings();

/// True at the call whose turn it is to fail. Each call counts.
bool fails_now(Failure what);

/// The rank that mpirun gave to this process, or "".
std::string mpi_rank();

}  // namespace tessera::cuda_emulator
