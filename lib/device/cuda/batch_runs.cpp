#include "device/cuda/batch_runs.h"

namespace tessera::device::cuda {

BatchRuns::BatchRuns(const KernelSpec& spec) : length(1) {
  const auto& shape = spec.inputs[0].shape;
  const auto global = global_of(spec.inputs[0]), start = start_of(spec.inputs[0]), strides = strides_of(global);
  // Trailing dimensions that are whole make one run with the first one that is not.
  auto d = shape.size() - 1;
  while (d > 0 && shape[d] == global[d]) --d;
  require(spec, d <= kMost, "more dimensions are split than a kernel of CUDA takes");
  dims = static_cast<int>(d);
  for (auto k = d; k < shape.size(); ++k) length *= shape[k];
  count = length == 0 ? 0 : elements(shape) / length;
  for (std::size_t k = 0; k < d; ++k) {
    sizes[k] = shape[k];
    steps[k] = strides[k];
  }
  for (std::size_t k = 0; k < shape.size(); ++k) first += start[k] * strides[k];
  of_micro_batch = spec.attributes.get_or<std::int64_t>("seed_rows", global[0]) * strides[0];
}

}  // namespace tessera::device::cuda
