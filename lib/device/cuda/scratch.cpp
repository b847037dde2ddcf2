#include "device/cuda/scratch.h"

#include <map>
#include <string_view>

namespace tessera::device::cuda {
namespace {

// Kernels that take none are absent.
const std::map<std::string_view, std::int64_t (*)(const KernelSpec&)> kScratch = {
    {"matmul", [](const KernelSpec&) { return kBlasWorkspaceBytes; }},
};

}  // namespace

std::int64_t scratch_bytes(const KernelSpec& spec) {
  const auto it = kScratch.find(spec.name);
  return it == kScratch.end() ? 0 : it->second(spec);
}

}  // namespace tessera::device::cuda
