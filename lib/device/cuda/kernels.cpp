#include "device/cuda/kernels.h"

#include <map>
#include <string_view>
#include <vector>

#include "core/text.h"

namespace tessera::device::cuda {
namespace {

const std::map<std::string_view, Factory> kKernels = {
    {"matmul", make_matmul},
    {"elementwise", make_elementwise},
    {"copy", make_copy},
    {"fill", make_fill},
};

}  // namespace

Factory find_factory(const KernelSpec& spec) {
  const auto it = kKernels.find(spec.name);
  if (it != kKernels.end()) return it->second;
  std::vector<std::string> names;
  for (const auto& [name, factory] : kKernels) names.emplace_back(name);
  fail(ExitCode::kInternal, "internal error: CUDA has no kernel '{}'{}", spec.name, did_you_mean(spec.name, names));
}

}  // namespace tessera::device::cuda
