#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/communicator.h"

// Collectives between GPUs as other rooms see them. NCCL is used by a shared object of its own, opened when several
// ranks have GPUs, so that one binary serves machines with and without it.
namespace tessera::comm {

struct NcclOptions {
  void* stream = nullptr;  // cudaStream_t on which all collectives are queued; the current device is its device
  bool windows = false;    // registers the communication region as a symmetric window of every communicator
  int most_blocks = 0;     // multiprocessors that a collective may take (maxCTAs); 0: NCCL's choice
};

/// Entry points of the shared object.
struct NcclBackend {
  /// A world whose collectives run on GPUs, one a rank; its control plane is `control`, which outlives it. Collectives
  /// are queued: they have ended when the stream has passed them.
  std::unique_ptr<World> (*make_world)(World& control, const NcclOptions& options);
  std::string (*version)();  // "2.28.9"
};

/// Throws Error (config), one sentence: this build has no NCCL, or why it can't be opened here.
const NcclBackend& nccl_backend();

}  // namespace tessera::comm
