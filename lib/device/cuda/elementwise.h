#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

#include "device/cuda/chain_program.h"

namespace tessera::device::cuda {

struct ChainPointers {
  const float* inputs[kMostChainInputs];
  float* outputs[kMostChainResults];
};

/// A chain made ready. One read of each full input and one write of each output: results are written when a thread has
/// read all, so an output may be the memory of a full input.
class ChainLauncher {
 public:
  /// Throws Error (internal) as compile() does.
  explicit ChainLauncher(const ElementwiseChain& chain);

  void run(const void* const* inputs, void* const* outputs, cudaStream_t stream) const;

 private:
  ChainProgram program_;
  int threads_ = 256;
};

}  // namespace tessera::device::cuda
