#include "runtime/scratch.h"

namespace tessera::runtime {

std::function<std::int64_t(const partition::Program&, const partition::KernelCall&)> scratch_on(
    device::DeviceKind kind) {
  return [kind](const partition::Program& program, const partition::KernelCall& call) {
    device::KernelSpec spec{call.kernel, {}, {}, call.attributes};
    const auto tensor = [&](int value) {
      const auto& v = program.values.at(static_cast<std::size_t>(value));
      return device::TensorSpec{v.local, v.dtype};
    };
    for (const int value : call.inputs) spec.inputs.push_back(tensor(value));
    for (const int value : call.outputs) spec.outputs.push_back(tensor(value));
    return device::scratch_bytes(kind, spec);
  };
}

}  // namespace tessera::runtime
