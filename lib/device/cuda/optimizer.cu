#include "device/cuda/flat.h"
#include "device/cuda/kernels.h"
#include "device/cuda/launch.h"

namespace tessera::device::cuda {
namespace {

/// Pointers of one tensor's update, from inputs to outputs; a pair may be the same memory. Slots that an optimizer does
/// not have are null.
struct Slots {
  std::int64_t n;
  const float *w, *g, *m, *v, *extra;
  float *w_out, *m_out, *v_out, *extra_out;

  /// Null is aligned.
  bool aligned() const { return aligned_to_four(w, g, m, v, extra, w_out, m_out, v_out, extra_out); }
};

struct SgdRule {
  double decay;
  float momentum;
  bool nesterov;
};
struct AdamRule {
  double decay, beta_1, beta_2;
  float one_minus_beta_1, one_minus_beta_2, epsilon;
};
struct RmspropRule {
  double decay;
  float rho, one_minus_rho, momentum, epsilon;
};

// Factors of one step, computed in double from the step's parameters. keep: 1 - decay lr.
struct Factors {
  float keep, rate;
};

__device__ Factors factors_of(double decay, double rate, const StepParams& params) {
  return {static_cast<float>(1 - decay * params.learning_rate), static_cast<float>(rate)};
}

/// Keras SGD: m = mu m - lr g; w += m, with Nesterov w += mu m - lr g.
template <bool kAligned>
__global__ void __launch_bounds__(kFlatThreads) sgd(const Slots s, const SgdRule rule, const StepParams* params) {
  const auto factors = factors_of(rule.decay, params->learning_rate, *params);
  each_four(s.n, [&](std::int64_t at, int count) {
    auto w = load_four<kAligned>(s.w, at, count);
    auto step = load_four<kAligned>(s.g, at, count);
    auto m = s.m != nullptr ? load_four<kAligned>(s.m, at, count) : Four{};
    for (int j = 0; j < 4; ++j) {
      step.v[j] *= -factors.rate;
      if (s.m != nullptr) {
        m.v[j] = rule.momentum * m.v[j] + step.v[j];
        step.v[j] = rule.nesterov ? rule.momentum * m.v[j] + step.v[j] : m.v[j];
      }
      w.v[j] = w.v[j] * factors.keep + step.v[j];
    }
    if (s.m != nullptr) store_four<kAligned>(s.m_out, at, count, m);
    store_four<kAligned>(s.w_out, at, count, w);
  });
}

/// Keras Adam: w -= alpha m / (sqrt(v) + epsilon) with alpha = lr sqrt(1 - beta_2^t) / (1 - beta_1^t). extra: amsgrad's
/// vhat.
template <bool kAligned>
__global__ void __launch_bounds__(kFlatThreads) adam(const Slots s, const AdamRule rule, const StepParams* params) {
  const auto factors = once_a_block([&]() -> Factors {
    const auto t = static_cast<double>(params->iteration + 1);
    const double alpha = params->learning_rate * sqrt(1 - pow(rule.beta_2, t)) / (1 - pow(rule.beta_1, t));
    return factors_of(rule.decay, alpha, *params);
  });
  each_four(s.n, [&](std::int64_t at, int count) {
    auto w = load_four<kAligned>(s.w, at, count);
    const auto g = load_four<kAligned>(s.g, at, count);
    auto m = load_four<kAligned>(s.m, at, count), v = load_four<kAligned>(s.v, at, count);
    auto most = s.extra != nullptr ? load_four<kAligned>(s.extra, at, count) : Four{};
    for (int j = 0; j < 4; ++j) {
      m.v[j] += (g.v[j] - m.v[j]) * rule.one_minus_beta_1;
      v.v[j] += (g.v[j] * g.v[j] - v.v[j]) * rule.one_minus_beta_2;
      most.v[j] = s.extra == nullptr || !(most.v[j] > v.v[j]) ? v.v[j] : most.v[j];  // a NaN in v passes
      w.v[j] = w.v[j] * factors.keep - factors.rate * m.v[j] / (sqrtf(most.v[j]) + rule.epsilon);
    }
    store_four<kAligned>(s.m_out, at, count, m);
    store_four<kAligned>(s.v_out, at, count, v);
    if (s.extra != nullptr) store_four<kAligned>(s.extra_out, at, count, most);
    store_four<kAligned>(s.w_out, at, count, w);
  });
}

/// Keras RMSprop: the step is lr g / sqrt(v [- mean^2] + epsilon), with momentum m = mu m + step. extra: the mean
/// gradient.
template <bool kAligned>
__global__ void __launch_bounds__(kFlatThreads)
    rmsprop(const Slots s, const RmspropRule rule, const StepParams* params) {
  const auto factors = factors_of(rule.decay, params->learning_rate, *params);
  each_four(s.n, [&](std::int64_t at, int count) {
    auto w = load_four<kAligned>(s.w, at, count);
    const auto g = load_four<kAligned>(s.g, at, count);
    auto v = load_four<kAligned>(s.v, at, count);
    auto mean = s.extra != nullptr ? load_four<kAligned>(s.extra, at, count) : Four{};
    auto m = s.m != nullptr ? load_four<kAligned>(s.m, at, count) : Four{};
    for (int j = 0; j < 4; ++j) {
      v.v[j] = rule.rho * v.v[j] + rule.one_minus_rho * (g.v[j] * g.v[j]);
      float root = v.v[j] + rule.epsilon;
      if (s.extra != nullptr) {
        mean.v[j] = rule.rho * mean.v[j] + rule.one_minus_rho * g.v[j];
        root = v.v[j] - mean.v[j] * mean.v[j] + rule.epsilon;
      }
      float step = factors.rate * g.v[j] / sqrtf(root);
      if (s.m != nullptr) m.v[j] = step = rule.momentum * m.v[j] + step;
      w.v[j] = w.v[j] * factors.keep - step;
    }
    store_four<kAligned>(s.v_out, at, count, v);
    if (s.extra != nullptr) store_four<kAligned>(s.extra_out, at, count, mean);
    if (s.m != nullptr) store_four<kAligned>(s.m_out, at, count, m);
    store_four<kAligned>(s.w_out, at, count, w);
  });
}

/// average = momentum average + (1 - momentum) w; it begins as the variable.
template <bool kAligned>
__global__ void __launch_bounds__(kFlatThreads) ema(const float* average, const float* w, float* out, std::int64_t n,
                                                    float momentum, float rest, const StepParams* params) {
  const bool first = params->iteration == 0;
  each_four(n, [&](std::int64_t at, int count) {
    auto value = load_four<kAligned>(w, at, count);
    if (!first) {
      const auto before = load_four<kAligned>(average, at, count);
      for (int j = 0; j < 4; ++j) value.v[j] = momentum * before.v[j] + rest * value.v[j];
    }
    store_four<kAligned>(out, at, count, value);
  });
}

template <bool kAligned>
__global__ void __launch_bounds__(kFlatThreads)
    overwrite(const float* w, const float* average, float* out, std::int64_t n, std::int64_t frequency,
              const StepParams* params) {
  const float* from = (params->iteration + 1) % frequency == 0 ? average : w;
  if (from == out) return;
  each_four(n, [&](std::int64_t at, int count) {
    store_four<kAligned>(out, at, count, load_four<kAligned>(from, at, count));
  });
}

/// All operands are as large as w. Returns the number of elements. Every output pairs with an input: w', then the
/// slots.
std::int64_t require_update(const KernelSpec& spec, std::size_t slots) {
  require_counts(spec, 2 + slots, 1 + slots);
  const auto& shape = input(spec, 0);
  for (std::size_t k = 1; k < spec.inputs.size(); ++k) require_input(spec, k, shape);
  for (std::size_t k = 0; k < spec.outputs.size(); ++k) require_output(spec, k, shape);
  return elements(shape);
}

/// The two kernels that read another tensor of w's shape.
std::int64_t require_average(const KernelSpec& spec) {
  require_counts(spec, 2, 1);
  const auto& shape = input(spec, 0);
  require_input(spec, 1, shape);
  require_output(spec, 0, shape);
  return elements(shape);
}

}  // namespace

std::unique_ptr<Kernel> make_sgd_update(const KernelSpec& spec, Context& context, Stream stream) {
  const auto& a = spec.attributes;
  const auto momentum = number_or(a, "momentum", 0);
  const bool slot = spec.inputs.size() == 3;
  require(spec, slot || momentum == 0, "momentum needs its slot");
  const auto n = require_update(spec, slot ? 1 : 0);
  const SgdRule rule{number_or(a, "weight_decay", 0), static_cast<float>(momentum), flag(a, "nesterov")};
  return kernel_of(context, stream, [=](const Args& args) {
    const Slots s{.n = n,
                  .w = args.in(0),
                  .g = args.in(1),
                  .m = slot ? args.in(2) : nullptr,
                  .v = nullptr,
                  .extra = nullptr,
                  .w_out = args.out(0),
                  .m_out = slot ? args.out(1) : nullptr,
                  .v_out = nullptr,
                  .extra_out = nullptr};
    launch(args.stream, flat_shape(n), s.aligned() ? sgd<true> : sgd<false>, s, rule, args.params);
  });
}

std::unique_ptr<Kernel> make_adam_update(const KernelSpec& spec, Context& context, Stream stream) {
  const auto& a = spec.attributes;
  const bool amsgrad = flag(a, "amsgrad");
  const auto n = require_update(spec, amsgrad ? 3 : 2);
  const auto beta_1 = number(a, "beta_1"), beta_2 = number(a, "beta_2");
  const AdamRule rule{number_or(a, "weight_decay", 0),
                      beta_1,
                      beta_2,
                      static_cast<float>(1 - beta_1),
                      static_cast<float>(1 - beta_2),
                      static_cast<float>(number(a, "epsilon"))};
  return kernel_of(context, stream, [=](const Args& args) {
    const Slots s{.n = n,
                  .w = args.in(0),
                  .g = args.in(1),
                  .m = args.in(2),
                  .v = args.in(3),
                  .extra = amsgrad ? args.in(4) : nullptr,
                  .w_out = args.out(0),
                  .m_out = args.out(1),
                  .v_out = args.out(2),
                  .extra_out = amsgrad ? args.out(3) : nullptr};
    launch(args.stream, flat_shape(n), s.aligned() ? adam<true> : adam<false>, s, rule, args.params);
  });
}

std::unique_ptr<Kernel> make_rmsprop_update(const KernelSpec& spec, Context& context, Stream stream) {
  const auto& a = spec.attributes;
  const bool centered = flag(a, "centered");
  const auto momentum = number_or(a, "momentum", 0);
  const bool slot = momentum != 0;
  const auto n = require_update(spec, 1 + (centered ? 1 : 0) + (slot ? 1 : 0));
  const auto rho = number(a, "rho");
  const RmspropRule rule{number_or(a, "weight_decay", 0), static_cast<float>(rho), static_cast<float>(1 - rho),
                         static_cast<float>(momentum), static_cast<float>(number(a, "epsilon"))};
  return kernel_of(context, stream, [=](const Args& args) {
    const int m = centered ? 4 : 3;  // w, g, v [, mg] [, m]
    const Slots s{.n = n,
                  .w = args.in(0),
                  .g = args.in(1),
                  .m = slot ? args.in(m) : nullptr,
                  .v = args.in(2),
                  .extra = centered ? args.in(3) : nullptr,
                  .w_out = args.out(0),
                  .m_out = slot ? args.out(m - 1) : nullptr,
                  .v_out = args.out(1),
                  .extra_out = centered ? args.out(2) : nullptr};
    launch(args.stream, flat_shape(n), s.aligned() ? rmsprop<true> : rmsprop<false>, s, rule, args.params);
  });
}

std::unique_ptr<Kernel> make_ema_update(const KernelSpec& spec, Context& context, Stream stream) {
  const auto n = require_average(spec);
  return kernel_of(context, stream, [n, momentum = number(spec.attributes, "momentum")](const Args& args) {
    const bool aligned = aligned_to_four(args.in(0), args.in(1), args.out(0));
    launch(args.stream, flat_shape(n), aligned ? ema<true> : ema<false>, args.in(0), args.in(1), args.out(0), n,
           static_cast<float>(momentum), static_cast<float>(1 - momentum), args.params);
  });
}

std::unique_ptr<Kernel> make_ema_overwrite(const KernelSpec& spec, Context& context, Stream stream) {
  const auto n = require_average(spec);
  const auto frequency = spec.attributes.get<std::int64_t>("frequency");
  require(spec, frequency > 0, "the frequency counts updates");
  return kernel_of(context, stream, [=](const Args& args) {
    const bool aligned = aligned_to_four(args.in(0), args.in(1), args.out(0));
    launch(args.stream, flat_shape(n), aligned ? overwrite<true> : overwrite<false>, args.in(0), args.in(1),
           args.out(0), n, frequency, args.params);
  });
}

}  // namespace tessera::device::cuda
