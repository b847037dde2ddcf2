#include "device/cuda/dynamic_shared.h"
#include "device/cuda/elementwise.h"
#include "device/cuda/elementwise_ops.h"
#include "device/cuda/kernels.h"
#include "device/cuda/launch.h"

namespace tessera::device::cuda {
namespace {

using Spread = ElementwiseChain::Spread;

constexpr int kWidth = 4;  // elements of a thread at a time
constexpr int kMostSharedBytes = 48 << 10;

template <typename Index, bool kAligned>
__device__ Four load(const ChainProgram::Input& input, const float* data, std::int64_t at, int count) {
  if (input.spread == Spread::kFull) return load_four<kAligned>(data, at, count);
  Four value{};
  for (int j = 0; j < kWidth; ++j)
    if (j < count) value.v[j] = data[element_of<Index>(input, at + j)];
  return value;
}

/// A thread has four neighbours in hand and keeps what later steps read in its own column of the shared memory.
template <typename Index, bool kAligned>
__global__ void __launch_bounds__(256)
    run_chain(const __grid_constant__ ChainProgram program, const __grid_constant__ ChainPointers pointers) {
  Four* kept = dynamic_shared<Four>() + threadIdx.x;
  const auto stride = threads_of_grid() * kWidth;
  for (auto at = thread_of_grid() * kWidth; at < program.size; at += stride) {
    const auto left = program.size - at;
    const int count = left < kWidth ? static_cast<int>(left) : kWidth;
    for (int k = 0; k < program.input_count; ++k)
      if (program.inputs[k].slot >= 0)
        kept[program.inputs[k].slot * blockDim.x] =
            load<Index, kAligned>(program.inputs[k], pointers.inputs[k], at, count);

    Four last{};
    const auto value_of = [&](const ChainProgram::Operand& operand) -> Four {
      if (operand.from == ChainProgram::From::kLast) return last;
      if (operand.from == ChainProgram::From::kSlot) return kept[operand.index * blockDim.x];
      if (operand.from == ChainProgram::From::kInput)
        return load<Index, kAligned>(program.inputs[operand.index], pointers.inputs[operand.index], at, count);
      const float c = program.constants[operand.index];
      return {{c, c, c, c}};
    };
    for (int s = 0; s < program.step_count; ++s) {
      const auto& step = program.steps[s];
      const Four x = value_of(step.x);
      const Four y = step.same ? x : value_of(step.y);
      last = apply(step.op, x, y, step.a, step.b);
      if (step.slot >= 0) kept[step.slot * blockDim.x] = last;
    }
    for (int r = 0; r < program.result_count; ++r) {
      const int slot = program.result_slots[r];
      store_four<kAligned>(pointers.outputs[r], at, count, slot < 0 ? last : kept[slot * blockDim.x]);
    }
  }
}

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

}  // namespace

ChainLauncher::ChainLauncher(const ElementwiseChain& chain) : program_(compile(chain)) {
  const auto column = program_.slot_count * static_cast<int>(sizeof(Four));
  while (threads_ > 32 && threads_ * column > kMostSharedBytes) threads_ /= 2;
}

void ChainLauncher::run(const void* const* inputs, void* const* outputs, cudaStream_t stream) const {
  ChainPointers pointers{};
  bool aligned = true;
  for (int k = 0; k < program_.input_count; ++k) {
    pointers.inputs[k] = static_cast<const float*>(inputs[k]);
    aligned &= program_.inputs[k].spread != Spread::kFull || is_aligned(inputs[k]);
  }
  for (int r = 0; r < program_.result_count; ++r) {
    pointers.outputs[r] = static_cast<float*>(outputs[r]);
    aligned &= is_aligned(outputs[r]);
  }
  const LaunchShape shape{blocks_for(program_.size, static_cast<std::int64_t>(threads_) * kWidth), threads_,
                          static_cast<std::size_t>(program_.slot_count * threads_) * sizeof(Four)};
  const bool narrow = fits_32_bits(program_.size);
  const auto kernel = narrow    ? aligned ? run_chain<std::uint32_t, true> : run_chain<std::uint32_t, false>
                         : aligned ? run_chain<std::int64_t, true>
                                : run_chain<std::int64_t, false>;
  launch(stream, shape, kernel, program_, pointers);
}

std::unique_ptr<Kernel> make_elementwise(const KernelSpec& spec, Context& context, Stream stream) {
  const auto results = spec.attributes.get_or<std::vector<std::int64_t>>("results", {});
  std::vector<Shape> shapes;
  for (std::size_t k = 0; k < spec.inputs.size(); ++k) shapes.push_back(input(spec, k));
  const auto& shape = output(spec, 0);
  const auto chain = parse_chain(spec.attributes.get<std::string>("program"), shapes, shape, results);
  require(spec, chain.results.size() == spec.outputs.size(), "the number of results is wrong");
  for (std::size_t k = 1; k < spec.outputs.size(); ++k) require_output(spec, k, shape);
  return kernel_of(context, stream, [launcher = ChainLauncher(chain)](const Args& args) {
    launcher.run(args.inputs, args.outputs, args.stream);
  });
}

}  // namespace tessera::device::cuda
