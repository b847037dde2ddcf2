#include "device/cuda/sum_index.h"

namespace tessera::device::cuda {

Offsets::Offsets(const KernelSpec& spec, const Walk& walk) : dims(static_cast<int>(walk.sizes.size())) {
  require(spec, dims <= kMost, "it alternates too often between dimensions that stay and that are summed");
  require(spec, walk.count() <= INT32_MAX, "there are too many rows");
  for (int d = 0; d < dims; ++d) {
    sizes[d] = static_cast<std::uint32_t>(walk.sizes[static_cast<std::size_t>(d)]);
    strides[d] = walk.strides[static_cast<std::size_t>(d)];
  }
}

}  // namespace tessera::device::cuda
