#pragma once

#include "cuda_emulator/control.h"

namespace tessera::cuda_emulator {

// By the thread that runs kernels.
void add_launch();
void add_traffic(const Traffic::Bytes& requested, const Traffic::Bytes& unique);

}  // namespace tessera::cuda_emulator
