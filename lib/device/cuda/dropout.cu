#include <bit>

#include "core/philox.h"
#include "device/cuda/batch_runs.h"
#include "device/cuda/flat.h"
#include "device/cuda/kernels.h"

namespace tessera::device::cuda {
namespace {

__device__ float drop(float x, std::uint32_t bits, float rate, float scale) {
  return uniform_01(bits) >= rate ? x * scale : 0.0F;
}

/// A thread has four elements in hand that share a call of Philox: neighbours in the batch from a multiple of 4 on.
__global__ void __launch_bounds__(kFlatThreads)
    dropout(const float* x, float* y, const __grid_constant__ BatchRuns runs, std::uint64_t key,
            const StepParams* params, std::int64_t micro_batch, float rate, float scale) {
  const auto step = static_cast<std::uint64_t>(params->step);
  const auto stride = threads_of_grid();
  for (auto i = thread_of_grid(); i < runs.quads(); i += stride) {
    const auto [quad, from, local] = runs.quad(i, micro_batch);
    if (from >= runs.length) continue;
    const auto bits = philox(key, static_cast<std::uint64_t>(quad), step);
    const float* in = x + local;
    float* out = y + local;
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
  return kernel_of(context, stream, [=, runs = BatchRuns(spec)](const Args& args) {
    launch(args.stream, {blocks_for(runs.quads(), kFlatThreads), kFlatThreads}, dropout, args.in(0), args.out(0), runs,
           key, args.params, args.micro_batch, static_cast<float>(rate), static_cast<float>(1 / (1 - rate)));
  });
}

}  // namespace tessera::device::cuda
