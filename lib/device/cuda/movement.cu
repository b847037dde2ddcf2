#include "device/cuda/kernels.h"
#include "device/cuda/launch.h"

namespace tessera::device::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) fill(T* data, std::int64_t n, T value) {
  const auto stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) data[i] = value;
}

template <typename T>
std::unique_ptr<Kernel> fill_with(const Context& context, Stream stream, T value, std::int64_t n) {
  return kernel_of(context, stream, [=](const Args& args) {
    launch(args.stream, {blocks_for(n, kThreads * 4), kThreads}, fill<T>, args.out<T>(0), n, value);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_copy(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 1, 1);
  const auto dtype = spec.inputs[0].dtype;
  require(spec, spec.outputs[0].dtype == dtype, "the dtypes differ");
  const auto n = elements(spec.inputs[0].shape);  // the shapes may differ: a reshape
  require(spec, elements(spec.outputs[0].shape) == n, "the sizes differ");
  const auto bytes = static_cast<std::size_t>(n * size_of(dtype));
  return kernel_of(context, stream, [=](const Args& args) {
    if (bytes == 0 || args.inputs[0] == args.outputs[0]) return;
    check(cudaMemcpyAsync(args.outputs[0], args.inputs[0], bytes, cudaMemcpyDeviceToDevice, args.stream),
          "cudaMemcpyAsync");
  });
}

std::unique_ptr<Kernel> make_fill(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 0, 1);
  const auto value = number(spec.attributes, "value");
  const auto n = elements(spec.outputs[0].shape);
  switch (spec.outputs[0].dtype) {
    case DType::kF32:
      return fill_with(context, stream, static_cast<float>(value), n);
    case DType::kF64:
      return fill_with(context, stream, value, n);
    case DType::kI32:
      return fill_with(context, stream, static_cast<std::int32_t>(value), n);
    case DType::kI64:
      return fill_with(context, stream, static_cast<std::int64_t>(value), n);
    case DType::kU8:
      return fill_with(context, stream, static_cast<std::uint8_t>(value), n);
    case DType::kBool:
      return fill_with(context, stream, static_cast<std::uint8_t>(value != 0), n);
    case DType::kBF16:
    case DType::kF16:
      break;
  }
  require(spec, value == 0, "two-byte floats are filled with 0 only");
  return fill_with(context, stream, std::uint16_t{0}, n);
}

}  // namespace tessera::device::cuda
