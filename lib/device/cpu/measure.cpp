#include <algorithm>
#include <chrono>

#include "device/cpu.h"

namespace tessera::device {
namespace {

/// Seconds of one run: the best of several after a first that warms up.
template <class F>
double best_seconds(int runs, const F& f) {
  double best = 0;
  for (int k = 0; k <= runs; ++k) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (k == 1 || (k > 1 && seconds < best)) best = seconds;
  }
  return best;
}

double time_kernel(Device& device, const KernelSpec& spec, int runs) {
  device.tune({spec});
  std::vector<std::shared_ptr<void>> memory;
  const auto operands = [&](const std::vector<TensorSpec>& tensors) {
    std::vector<void*> pointers;
    for (const auto& t : tensors) {
      memory.push_back(device.allocate(elements(t.shape) * size_of(t.dtype)));
      pointers.push_back(memory.back().get());
    }
    return pointers;
  };
  const auto in = operands(spec.inputs), out = operands(spec.outputs);
  for (std::size_t k = 0; k < in.size(); ++k) {  // untouched memory would be one page of zeros
    const auto fill = device.make_kernel({"fill", {}, {spec.inputs[k]}, {{"value", 1.0}}});
    fill->run(nullptr, &in[k], StepParams{});
  }
  const std::vector<const void*> inputs(in.begin(), in.end());
  const auto scratch_size = scratch_bytes(device.kind(), spec);
  memory.push_back(device.allocate(scratch_size));
  device.set_scratch(memory.back().get(), scratch_size);
  const auto kernel = device.make_kernel(spec);
  return best_seconds(runs, [&] {
    kernel->run(inputs.data(), out.data(), StepParams{});
    device.synchronize();
  });
}

}  // namespace

DeviceSpeed measure(Device& device) {
  constexpr std::int64_t kSide = 1024, kLarge = std::int64_t{32} << 20;  // elements: 128 MiB, beyond the caches
  const TensorSpec square{{kSide, kSide}}, large{{kLarge}}, small{{16}};
  DeviceSpeed speed;
  speed.flops_f32 = 2.0 * kSide * kSide * kSide / time_kernel(device, {"matmul", {square, square}, {square}, {}}, 5);
  speed.bandwidth = 2.0 * sizeof(float) * kLarge / time_kernel(device, {"copy", {large}, {large}, {}}, 5);
  speed.kernel_seconds =
      time_kernel(device, {"elementwise", {small}, {small}, {{"program", std::string("relu i0")}}}, 200);
  return speed;
}

}  // namespace tessera::device
