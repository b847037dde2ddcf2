#include <bit>

#include "core/philox.h"
#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/dropout.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {

/// y = x scale where uniform_01(bits) >= rate, else 0, for the n elements from index `element` of the whole batch on.
void dropout_run(const float* x, float* y, std::int64_t n, std::uint64_t element, std::uint64_t key, std::uint64_t step,
                 float rate, float scale) {
  constexpr std::int64_t kBlock = 512;
  HWY_ALIGN std::uint32_t bits[kBlock];
  for (std::int64_t i = 0; i < n;) {
    const auto count = std::min(kBlock, n - i);
    philox_fill(key, element + i, step, {bits, static_cast<std::size_t>(count)});
    for_lanes(count, [&](auto d, std::int64_t j) HWY_ATTR {
      const hn::RebindToUnsigned<decltype(d)> du;
      const hn::RebindToSigned<decltype(d)> di;
      const auto upper = hn::ShiftRight<8>(hn::LoadU(du, bits + j));
      const auto uniform = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, upper)), hn::Set(d, 0x1p-24F));
      const auto kept = hn::Mul(hn::LoadU(d, x + i + j), hn::Set(d, scale));
      hn::StoreU(hn::IfThenElseZero(hn::Ge(uniform, hn::Set(d, rate)), kept), d, y + i + j);
    });
    i += count;
  }
}

}  // namespace tessera::device::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::device::cpu {

HWY_EXPORT(dropout_run);

std::unique_ptr<Kernel> make_dropout(const KernelSpec& spec, Context& context) {
  require_counts(spec, 1, 1);
  const auto shape = input(spec, 0);
  require_output(spec, 0, shape);
  require(spec, !shape.empty(), "it counts rows along the first dimension");
  const auto rate = number(spec.attributes, "rate");
  require(spec, rate >= 0 && rate < 1, "the rate lies in [0, 1)");
  const auto key = std::bit_cast<std::uint64_t>(spec.attributes.get<std::int64_t>("key"));
  const auto global = global_of(spec.inputs[0]), start = start_of(spec.inputs[0]);
  const auto batch_rows = spec.attributes.get_or<std::int64_t>("seed_rows", global[0]);

  // Trailing dimensions that are whole make one run of consecutive elements with the first one that is not.
  auto d = shape.size() - 1;
  while (d > 0 && shape[d] == global[d]) --d;
  const auto strides = strides_of(global);
  std::int64_t run = 1;
  for (auto k = d; k < shape.size(); ++k) run *= shape[k];
  const auto runs = run == 0 ? 0 : elements(shape) / run;
  return kernel_of([=, threads = context.threads](const Args& args) {
    const auto first_row = start[0] + args.params.micro_batch * batch_rows;
    const auto scale = static_cast<float>(1 / (1 - rate));
    // A long run is cut into pieces of whole quads so that one run too can use all threads.
    const auto piece = std::int64_t{1} << 12, pieces = (run + piece - 1) / piece;
    parallel_for(threads, runs * pieces, std::max<std::int64_t>(1, kGrain / std::min(run, piece)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (auto p = begin; p < end; ++p) {
                     auto index = p / pieces;
                     const auto at = p % pieces * piece;
                     std::int64_t element = (d == 0 ? first_row : start[d]) * strides[d] + at;
                     for (auto k = d; k-- > 0; index /= shape[k])
                       element += ((k == 0 ? first_row : start[k]) + index % shape[k]) * strides[k];
                     const auto local = p / pieces * run + at;
                     HWY_DYNAMIC_DISPATCH(dropout_run)
                     (args.in(0) + local, args.out(0) + local, std::min(piece, run - at),
                      static_cast<std::uint64_t>(element), key, static_cast<std::uint64_t>(args.params.step),
                      static_cast<float>(rate), scale);
                   }
                 });
  });
}

}  // namespace tessera::device::cpu
#endif  // HWY_ONCE
