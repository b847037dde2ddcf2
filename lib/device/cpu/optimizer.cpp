#include <cmath>

#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vector-inl.h"

#ifndef TESSERA_DEVICE_CPU_OPTIMIZER_ONCE
#define TESSERA_DEVICE_CPU_OPTIMIZER_ONCE
namespace tessera::device::cpu {

/// Pointers of one tensor's update, from inputs to outputs; a pair may be the same memory. Slots that an optimizer does
/// not have are null.
struct Slots {
  const float *w, *g, *m, *v, *extra;
  float *w_out, *m_out, *v_out, *extra_out;
};

// Factors of one step, computed in double from the step's parameters.
struct SgdStep {
  float keep, rate, momentum;  // keep: 1 - decay lr
  bool nesterov;
};
struct AdamStep {
  float keep, alpha, one_minus_beta_1, one_minus_beta_2, epsilon;
};
struct RmspropStep {
  float keep, rate, rho, one_minus_rho, momentum, epsilon;
};

}  // namespace tessera::device::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {

/// Keras SGD: m = mu m - lr g; w += m, with Nesterov w += mu m - lr g.
void sgd(const Slots& s, std::int64_t begin, std::int64_t end, const SgdStep& k) {
  for_lanes(end - begin, [&](auto d, std::int64_t i) HWY_ATTR {
    i += begin;
    const auto w = hn::Mul(hn::LoadU(d, s.w + i), hn::Set(d, k.keep));
    auto step = hn::Mul(hn::Set(d, -k.rate), hn::LoadU(d, s.g + i));
    if (s.m != nullptr) {
      const auto momentum = hn::Set(d, k.momentum);
      const auto m = hn::MulAdd(momentum, hn::LoadU(d, s.m + i), step);
      hn::StoreU(m, d, s.m_out + i);
      step = k.nesterov ? hn::MulAdd(momentum, m, step) : m;
    }
    hn::StoreU(hn::Add(w, step), d, s.w_out + i);
  });
}

/// Keras Adam: w -= alpha m / (sqrt(v) + epsilon) with alpha = lr sqrt(1 - beta_2^t) / (1 - beta_1^t). extra: amsgrad's
/// vhat.
void adam(const Slots& s, std::int64_t begin, std::int64_t end, const AdamStep& k) {
  for_lanes(end - begin, [&](auto d, std::int64_t i) HWY_ATTR {
    i += begin;
    const auto g = hn::LoadU(d, s.g + i);
    auto m = hn::LoadU(d, s.m + i), v = hn::LoadU(d, s.v + i);
    m = hn::MulAdd(hn::Sub(g, m), hn::Set(d, k.one_minus_beta_1), m);
    v = hn::MulAdd(hn::Sub(hn::Mul(g, g), v), hn::Set(d, k.one_minus_beta_2), v);
    hn::StoreU(m, d, s.m_out + i);
    hn::StoreU(v, d, s.v_out + i);
    if (s.extra != nullptr) {
      v = hn::IfThenElse(hn::IsNaN(v), v, hn::Max(hn::LoadU(d, s.extra + i), v));
      hn::StoreU(v, d, s.extra_out + i);
    }
    const auto w = hn::Mul(hn::LoadU(d, s.w + i), hn::Set(d, k.keep));
    const auto step = hn::Div(hn::Mul(hn::Set(d, k.alpha), m), hn::Add(hn::Sqrt(v), hn::Set(d, k.epsilon)));
    hn::StoreU(hn::Sub(w, step), d, s.w_out + i);
  });
}

/// Keras RMSprop: the step is lr g / sqrt(v [- mean^2] + epsilon), with momentum m = mu m + step. extra: the mean
/// gradient.
void rmsprop(const Slots& s, std::int64_t begin, std::int64_t end, const RmspropStep& k) {
  for_lanes(end - begin, [&](auto d, std::int64_t i) HWY_ATTR {
    i += begin;
    const auto g = hn::LoadU(d, s.g + i);
    const auto rho = hn::Set(d, k.rho), rest = hn::Set(d, k.one_minus_rho);
    const auto v = hn::MulAdd(rho, hn::LoadU(d, s.v + i), hn::Mul(rest, hn::Mul(g, g)));
    hn::StoreU(v, d, s.v_out + i);
    auto root = hn::Add(v, hn::Set(d, k.epsilon));
    if (s.extra != nullptr) {
      const auto mean = hn::MulAdd(rho, hn::LoadU(d, s.extra + i), hn::Mul(rest, g));
      hn::StoreU(mean, d, s.extra_out + i);
      root = hn::Add(hn::NegMulAdd(mean, mean, v), hn::Set(d, k.epsilon));
    }
    auto step = hn::Div(hn::Mul(hn::Set(d, k.rate), g), hn::Sqrt(root));
    if (s.m != nullptr) {
      step = hn::MulAdd(hn::Set(d, k.momentum), hn::LoadU(d, s.m + i), step);
      hn::StoreU(step, d, s.m_out + i);
    }
    hn::StoreU(hn::Sub(hn::Mul(hn::LoadU(d, s.w + i), hn::Set(d, k.keep)), step), d, s.w_out + i);
  });
}

/// average = momentum average + (1 - momentum) w.
void ema(const float* average, const float* w, float* out, std::int64_t n, float momentum, float rest) {
  for_lanes(n, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto fresh = hn::Mul(hn::Set(d, rest), hn::LoadU(d, w + i));
    hn::StoreU(hn::MulAdd(hn::Set(d, momentum), hn::LoadU(d, average + i), fresh), d, out + i);
  });
}

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::device::cpu {

HWY_EXPORT(sgd);
HWY_EXPORT(adam);
HWY_EXPORT(rmsprop);
HWY_EXPORT(ema);

namespace {

/// What the updates share. All operands are as large as w. Every output pairs with an input: w', then the slots; behind
/// them, where it is asked for, lies the sum of squares of the gradient.
class Update {
 public:
  Update(const KernelSpec& spec, std::size_t slots, Context& context) : threads_(context.threads) {
    const bool squares = flag(spec.attributes, "sum_squares");
    require_counts(spec, 2 + slots, 1 + slots + (squares ? 1 : 0));
    const auto& shape = input(spec, 0);
    for (std::size_t k = 1; k < spec.inputs.size(); ++k) require_input(spec, k, shape);
    for (std::size_t k = 0; k <= slots; ++k) require_output(spec, k, shape);
    size_ = elements(shape);
    if (!squares) return;
    squares_ = static_cast<int>(slots) + 1;
    require_output(spec, 1 + slots, {}, DType::kF64);
    partials_ = context.scratch.take<double>(update_scratch(spec));
  }

  /// step(begin, end) over all elements. The squares of a block are added up when its gradient has just been read.
  template <class F>
  void run(const Args& args, std::int64_t grain, const F& step) const {
    if (squares_ < 0) return parallel_for(threads_, size_, grain, step);
    const auto* g = args.in(1);
    *args.out<double>(squares_) =
        ordered_sum(threads_, partials_, size_, kSquaresWeight, [&](std::int64_t begin, std::int64_t end) {
          step(begin, end);
          return sum_squares(g + begin, end - begin);
        });
  }

 private:
  int threads_, squares_ = -1;
  std::int64_t size_ = 0;
  double* partials_ = nullptr;
};

float keep(double decay, const StepParams& params) { return static_cast<float>(1 - decay * params.learning_rate); }

}  // namespace

std::int64_t update_scratch(const KernelSpec& spec) {
  return flag(spec.attributes, "sum_squares") ? partials_bytes(elements(input(spec, 0)), kSquaresWeight) : 0;
}

std::unique_ptr<Kernel> make_sgd_update(const KernelSpec& spec, Context& context) {
  const auto& a = spec.attributes;
  const auto momentum = number_or(a, "momentum", 0);
  const bool slot = spec.inputs.size() == 3;
  require(spec, slot || momentum == 0, "momentum needs its slot");
  const Update update(spec, slot ? 1 : 0, context);
  return kernel_of([=, nesterov = flag(a, "nesterov"), decay = number_or(a, "weight_decay", 0)](const Args& args) {
    const SgdStep step{keep(decay, args.params), static_cast<float>(args.params.learning_rate),
                       static_cast<float>(momentum), nesterov};
    const Slots s{.w = args.in(0),
                  .g = args.in(1),
                  .m = slot ? args.in(2) : nullptr,
                  .v = nullptr,
                  .extra = nullptr,
                  .w_out = args.out(0),
                  .m_out = slot ? args.out(1) : nullptr,
                  .v_out = nullptr,
                  .extra_out = nullptr};
    update.run(args, kGrain, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(sgd)(s, begin, end, step);
    });
  });
}

std::unique_ptr<Kernel> make_adam_update(const KernelSpec& spec, Context& context) {
  const auto& a = spec.attributes;
  const bool amsgrad = flag(a, "amsgrad");
  const Update update(spec, amsgrad ? 3 : 2, context);
  return kernel_of([=, beta_1 = number(a, "beta_1"), beta_2 = number(a, "beta_2"), epsilon = number(a, "epsilon"),
                    decay = number_or(a, "weight_decay", 0)](const Args& args) {
    const auto t = static_cast<double>(args.params.iteration + 1);
    const auto alpha = args.params.learning_rate * std::sqrt(1 - std::pow(beta_2, t)) / (1 - std::pow(beta_1, t));
    const AdamStep step{keep(decay, args.params), static_cast<float>(alpha), static_cast<float>(1 - beta_1),
                        static_cast<float>(1 - beta_2), static_cast<float>(epsilon)};
    const Slots s{.w = args.in(0),
                  .g = args.in(1),
                  .m = args.in(2),
                  .v = args.in(3),
                  .extra = amsgrad ? args.in(4) : nullptr,
                  .w_out = args.out(0),
                  .m_out = args.out(1),
                  .v_out = args.out(2),
                  .extra_out = amsgrad ? args.out(3) : nullptr};
    update.run(args, kGrain / 4, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(adam)(s, begin, end, step);
    });
  });
}

std::unique_ptr<Kernel> make_rmsprop_update(const KernelSpec& spec, Context& context) {
  const auto& a = spec.attributes;
  const bool centered = flag(a, "centered");
  const auto momentum = number_or(a, "momentum", 0);
  const bool slot = momentum != 0;
  const Update update(spec, 1 + (centered ? 1 : 0) + (slot ? 1 : 0), context);
  return kernel_of([=, rho = number(a, "rho"), epsilon = number(a, "epsilon"),
                    decay = number_or(a, "weight_decay", 0)](const Args& args) {
    const RmspropStep step{keep(decay, args.params),     static_cast<float>(args.params.learning_rate),
                           static_cast<float>(rho),      static_cast<float>(1 - rho),
                           static_cast<float>(momentum), static_cast<float>(epsilon)};
    const int m = centered ? 4 : 3;  // w, g, v [, mg] [, m]
    const Slots s{.w = args.in(0),
                  .g = args.in(1),
                  .m = slot ? args.in(m) : nullptr,
                  .v = args.in(2),
                  .extra = centered ? args.in(3) : nullptr,
                  .w_out = args.out(0),
                  .m_out = slot ? args.out(m - 1) : nullptr,
                  .v_out = args.out(1),
                  .extra_out = centered ? args.out(2) : nullptr};
    update.run(args, kGrain / 4, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(rmsprop)(s, begin, end, step);
    });
  });
}

std::unique_ptr<Kernel> make_ema_update(const KernelSpec& spec, Context& context) {
  require_counts(spec, 2, 1);
  const auto& shape = input(spec, 0);
  require_input(spec, 1, shape);
  require_output(spec, 0, shape);
  return kernel_of([n = elements(shape), momentum = number(spec.attributes, "momentum"),
                    threads = context.threads](const Args& args) {
    parallel_for(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto* w = args.in(1) + begin;
      auto* average = args.out(0) + begin;
      if (args.params.iteration == 0) {  // it begins as the variable
        std::copy_n(w, end - begin, average);
      } else {
        HWY_DYNAMIC_DISPATCH(ema)
        (args.in(0) + begin, w, average, end - begin, static_cast<float>(momentum), static_cast<float>(1 - momentum));
      }
    });
  });
}

std::unique_ptr<Kernel> make_ema_overwrite(const KernelSpec& spec, Context& context) {
  require_counts(spec, 2, 1);
  const auto& shape = input(spec, 0);
  require_input(spec, 1, shape);
  require_output(spec, 0, shape);
  const auto frequency = spec.attributes.get<std::int64_t>("frequency");
  require(spec, frequency > 0, "the frequency counts updates");
  return kernel_of([n = elements(shape), frequency, threads = context.threads](const Args& args) {
    const auto* from = (args.params.iteration + 1) % frequency == 0 ? args.in(1) : args.in(0);
    auto* w = args.out(0);
    if (from == w) return;
    parallel_for(threads, n, kGrain,
                 [&](std::int64_t begin, std::int64_t end) { std::copy(from + begin, from + end, w + begin); });
  });
}

}  // namespace tessera::device::cpu
#endif  // HWY_ONCE
