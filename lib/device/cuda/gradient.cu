#include "device/cuda/flat.h"
#include "device/cuda/kernels.h"
#include "device/cuda/launch.h"

namespace tessera::device::cuda {
namespace {

template <bool kAligned>
__global__ void __launch_bounds__(kFlatThreads)
    clip(const float* g, const double* squares, float* out, std::int64_t n, double limit, bool global) {
  const float factor = once_a_block([&] {
    const double norm = sqrt(*squares);
    double f = global ? limit * fmin(1 / norm, 1 / limit) : limit / (norm < limit ? limit : norm);
    if (global) f += norm - norm;  // NaN where the norm is not finite
    return static_cast<float>(f);
  });
  each_four(n, [&](std::int64_t at, int count) {
    auto value = load_four<kAligned>(g, at, count);
    for (float& v : value.v) v *= factor;
    store_four<kAligned>(out, at, count, value);
  });
}

template <bool kAligned>
__global__ void __launch_bounds__(kFlatThreads) add(const float* acc, const float* g, float* out, std::int64_t n) {
  each_four(n, [&](std::int64_t at, int count) {
    auto sum = load_four<kAligned>(acc, at, count);
    const auto value = load_four<kAligned>(g, at, count);
    for (int j = 0; j < 4; ++j) sum.v[j] += value.v[j];
    store_four<kAligned>(out, at, count, sum);
  });
}

template <bool kAligned>
__global__ void __launch_bounds__(kFlatThreads)
    average(const float* acc, const float* g, float* out, float* rest, std::int64_t n, float steps) {
  each_four(n, [&](std::int64_t at, int count) {
    auto sum = load_four<kAligned>(acc, at, count);
    const auto value = load_four<kAligned>(g, at, count);
    for (int j = 0; j < 4; ++j) sum.v[j] = (sum.v[j] + value.v[j]) / steps;
    store_four<kAligned>(rest, at, count, Four{});
    store_four<kAligned>(out, at, count, sum);
  });
}

/// All operands are f32 tensors of one shape. Returns the number of elements.
std::int64_t require_equal(const KernelSpec& spec, std::size_t inputs, std::size_t outputs, std::size_t scalars = 0) {
  require_counts(spec, inputs + scalars, outputs);
  for (std::size_t k = 0; k < inputs; ++k) require_input(spec, k, spec.inputs[0].shape);
  for (std::size_t k = 0; k < outputs; ++k) require_output(spec, k, spec.inputs[0].shape);
  return elements(spec.inputs[0].shape);
}

}  // namespace

std::unique_ptr<Kernel> make_clip_by_norm(const KernelSpec& spec, Context& context, Stream stream) {
  const auto n = require_equal(spec, 1, 1, 1);
  require_input(spec, 1, {}, DType::kF64);
  const auto limit = number(spec.attributes, "norm");
  return kernel_of(context, stream, [=, global = flag(spec.attributes, "global")](const Args& args) {
    const bool aligned = aligned_to_four(args.in(0), args.out(0));
    launch(args.stream, flat_shape(n), aligned ? clip<true> : clip<false>, args.in(0), args.in<double>(1), args.out(0),
           n, limit, global);
  });
}

std::unique_ptr<Kernel> make_accumulate_gradient(const KernelSpec& spec, Context& context, Stream stream) {
  const auto n = require_equal(spec, 2, 1);
  return kernel_of(context, stream, [n](const Args& args) {
    const bool aligned = aligned_to_four(args.in(0), args.in(1), args.out(0));
    launch(args.stream, flat_shape(n), aligned ? add<true> : add<false>, args.in(0), args.in(1), args.out(0), n);
  });
}

std::unique_ptr<Kernel> make_average_gradient(const KernelSpec& spec, Context& context, Stream stream) {
  const auto n = require_equal(spec, 2, 2);
  const auto steps = static_cast<float>(number(spec.attributes, "steps"));
  return kernel_of(context, stream, [=](const Args& args) {
    const bool aligned = aligned_to_four(args.in(0), args.in(1), args.out(0), args.out(1));
    launch(args.stream, flat_shape(n), aligned ? average<true> : average<false>, args.in(0), args.in(1), args.out(0),
           args.out(1), n, steps);
  });
}

}  // namespace tessera::device::cuda
