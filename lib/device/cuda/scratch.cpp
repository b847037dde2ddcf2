#include "device/cuda/scratch.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace tessera::device::cuda {
namespace {

// Kernels that take none are absent.
const std::map<std::string_view, std::int64_t (*)(const KernelSpec&)> kScratch = {
    {"matmul", [](const KernelSpec& spec) { return blas_workspace_bytes(parse_matmul(spec).shape); }},
};

}  // namespace

std::int64_t blas_workspace_bytes(const MatmulShape& shape) {
  return std::min<std::int64_t>(32 << 20, 16 * sizeof(float) * shape.m * shape.n);
}

std::int64_t scratch_bytes(const KernelSpec& spec) {
  const auto it = kScratch.find(spec.name);
  return it == kScratch.end() ? 0 : it->second(spec);
}

}  // namespace tessera::device::cuda
