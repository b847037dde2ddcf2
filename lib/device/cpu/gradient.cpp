#include <algorithm>
#include <cmath>
#include <limits>

#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

// Loops so plain that the compiler makes vectors of them: each moves its data once.

namespace tessera::device::cpu {
namespace {

/// All operands are f32 tensors of one shape. Returns the number of elements.
std::int64_t require_equal(const KernelSpec& spec, std::size_t inputs, std::size_t outputs, std::size_t scalars = 0) {
  require_counts(spec, inputs + scalars, outputs);
  for (std::size_t k = 0; k < inputs; ++k) require_input(spec, k, spec.inputs[0].shape);
  for (std::size_t k = 0; k < outputs; ++k) require_output(spec, k, spec.inputs[0].shape);
  return elements(spec.inputs[0].shape);
}

}  // namespace

std::unique_ptr<Kernel> make_clip_by_norm(const KernelSpec& spec, Context& context) {
  const auto n = require_equal(spec, 1, 1, 1);
  require_input(spec, 1, {}, DType::kF64);
  const auto limit = number(spec.attributes, "norm");
  return kernel_of([=, global = flag(spec.attributes, "global"), threads = context.threads](const Args& args) {
    const auto norm = std::sqrt(*args.in<double>(1));
    auto factor = global ? limit * std::min(1 / norm, 1 / limit) : limit / std::max(norm, limit);
    if (global && !std::isfinite(norm)) factor = std::numeric_limits<double>::quiet_NaN();
    parallel_for(threads, n, kGrain, [&, f = static_cast<float>(factor)](std::int64_t begin, std::int64_t end) {
      const auto* g = args.in(0);
      auto* out = args.out(0);
      for (auto i = begin; i < end; ++i) out[i] = g[i] * f;
    });
  });
}

std::unique_ptr<Kernel> make_accumulate_gradient(const KernelSpec& spec, Context& context) {
  const auto n = require_equal(spec, 2, 1);
  return kernel_of([n, threads = context.threads](const Args& args) {
    parallel_for(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto *acc = args.in(0), *g = args.in(1);
      auto* out = args.out(0);
      for (auto i = begin; i < end; ++i) out[i] = acc[i] + g[i];
    });
  });
}

std::unique_ptr<Kernel> make_average_gradient(const KernelSpec& spec, Context& context) {
  const auto n = require_equal(spec, 2, 2);
  const auto steps = number(spec.attributes, "steps");
  return kernel_of([n, steps = static_cast<float>(steps), threads = context.threads](const Args& args) {
    parallel_for(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto *acc = args.in(0), *g = args.in(1);
      auto *average = args.out(0), *rest = args.out(1);
      for (auto i = begin; i < end; ++i) {
        const float sum = acc[i] + g[i];
        rest[i] = 0;
        average[i] = sum / steps;
      }
    });
  });
}

}  // namespace tessera::device::cpu
