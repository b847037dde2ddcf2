#pragma once

#include "cuda_emulator/control.h"

namespace tessera::cuda_emulator {

// By the thread that runs what was enqueued.
void add_launch();
void add_product();
void add_collective();
void add_copy(const Traffic::Bytes& copied);
void add_traffic(const Traffic::Bytes& requested, const Traffic::Bytes& unique);

}  // namespace tessera::cuda_emulator
