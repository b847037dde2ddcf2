#include <bit>

#include "core/philox.h"
#include "device/cuda/flat.h"
#include "device/cuda/kernels.h"

namespace tessera::device::cuda {
namespace {

/// Where the local elements lie in the whole batch: in runs of consecutive ones.
struct Runs {
  static constexpr int kMost = 8;
  std::int64_t count = 0, length = 0;
  int dims = 0;                     // over which the runs are counted
  std::int64_t sizes[kMost] = {};   // local
  std::int64_t steps[kMost] = {};   // between neighbours, in elements of the batch
  std::int64_t first = 0;           // element of the batch with which the first run begins, in micro-batch 0
  std::int64_t of_micro_batch = 0;  // what each micro-batch adds

  /// The element of the batch with which a run begins.
  __device__ std::int64_t begin(std::int64_t run, std::int64_t micro_batch) const {
    auto element = first + micro_batch * of_micro_batch;
    for (int d = dims - 1; d >= 0; run /= sizes[d--]) element += run % sizes[d] * steps[d];
    return element;
  }
};

Runs runs_of(const KernelSpec& spec) {
  const auto& shape = spec.inputs[0].shape;
  const auto global = global_of(spec.inputs[0]), start = start_of(spec.inputs[0]), strides = strides_of(global);
  // Trailing dimensions that are whole make one run with the first one that is not.
  auto d = shape.size() - 1;
  while (d > 0 && shape[d] == global[d]) --d;
  require(spec, d <= Runs::kMost, "more dimensions are split than a kernel of CUDA takes");
  Runs runs{.length = 1, .dims = static_cast<int>(d)};
  for (auto k = d; k < shape.size(); ++k) runs.length *= shape[k];
  runs.count = runs.length == 0 ? 0 : elements(shape) / runs.length;
  for (std::size_t k = 0; k < d; ++k) {
    runs.sizes[k] = shape[k];
    runs.steps[k] = strides[k];
  }
  for (std::size_t k = 0; k < shape.size(); ++k) runs.first += start[k] * strides[k];
  runs.of_micro_batch = spec.attributes.get_or<std::int64_t>("seed_rows", global[0]) * strides[0];
  return runs;
}

__device__ float drop(float x, std::uint32_t bits, float rate, float scale) {
  return uniform_01(bits) >= rate ? x * scale : 0.0F;
}

/// A thread has four elements in hand that share a call of Philox: neighbours in the batch from a multiple of 4 on.
__global__ void __launch_bounds__(kFlatThreads)
    dropout(const float* x, float* y, const __grid_constant__ Runs runs, std::int64_t quads_of_run, std::uint64_t key,
            const StepParams* params, std::int64_t micro_batch, float rate, float scale) {
  const auto step = static_cast<std::uint64_t>(params->step);
  const auto stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < runs.count * quads_of_run;
       i += stride) {
    const auto run = runs.count == 1 ? 0 : i / quads_of_run;
    const auto begin = runs.begin(run, micro_batch);
    const auto quad = begin / 4 + (i - run * quads_of_run);
    const auto from = quad * 4 - begin;  // in the run; negative in the first quad, where it begins within one
    if (from >= runs.length) continue;
    const auto bits = philox(key, static_cast<std::uint64_t>(quad), step);
    const float* in = x + run * runs.length + from;
    float* out = y + run * runs.length + from;
    if (from >= 0 && from + 4 <= runs.length && aligned_to_four(in, out)) {
      const float4 v = *reinterpret_cast<const float4*>(in);
      *reinterpret_cast<float4*>(out) = make_float4(drop(v.x, bits[0], rate, scale), drop(v.y, bits[1], rate, scale),
                                                    drop(v.z, bits[2], rate, scale), drop(v.w, bits[3], rate, scale));
      continue;
    }
    for (int j = 0; j < 4; ++j)
      if (from + j >= 0 && from + j < runs.length) out[j] = drop(in[j], bits[j], rate, scale);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_dropout(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 1, 1);
  const auto& shape = input(spec, 0);
  require_output(spec, 0, shape);
  require(spec, !shape.empty(), "it counts rows along the first dimension");
  const auto rate = number(spec.attributes, "rate");
  require(spec, rate >= 0 && rate < 1, "the rate lies in [0, 1)");
  const auto key = std::bit_cast<std::uint64_t>(spec.attributes.get<std::int64_t>("key"));
  const auto runs = runs_of(spec);
  const auto quads = (runs.length + 3) / 4 + 1;  // of a run that may begin within one
  return kernel_of(context, stream, [=](const Args& args) {
    launch(args.stream, {blocks_for(runs.count * quads, kFlatThreads), kFlatThreads}, dropout, args.in(0), args.out(0),
           runs, quads, key, args.params, args.micro_batch, static_cast<float>(rate),
           static_cast<float>(1 / (1 - rate)));
  });
}

}  // namespace tessera::device::cuda
