#include <bit>

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
namespace {

using Words = hn::ScalableTag<std::uint32_t>;
using WordVector = hn::Vec<Words>;

/// High and low halves of a 32 x 32 bit product, lane by lane.
struct Product {
  WordVector high, low;
};
HWY_INLINE Product multiply(Words d, WordVector a, std::uint32_t factor) {
  const hn::RepartitionToWide<Words> wide;
  const auto f = hn::Set(d, factor);
  const auto even = hn::MulEven(a, f), odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), f);
  return {hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even))),
          hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even))};
}

/// Bits of the elements from 4 quad on, four for each lane: core/philox.h with one counter a lane.
HWY_INLINE void philox_lanes(Words d, std::uint64_t key, std::uint64_t quad, std::uint64_t step, std::uint32_t* bits) {
  const auto low = hn::Set(d, static_cast<std::uint32_t>(quad)), one = hn::Set(d, 1U);
  auto c0 = hn::Add(low, hn::Iota(d, 0U));
  auto c1 = hn::Set(d, static_cast<std::uint32_t>(quad >> 32));
  c1 = hn::Add(c1, hn::IfThenElseZero(hn::Lt(c0, low), one));  // the carry
  auto c2 = hn::Set(d, static_cast<std::uint32_t>(step));
  auto c3 = hn::Set(d, static_cast<std::uint32_t>(step >> 32));
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const auto p0 = multiply(d, c0, 0xD2511F53U), p1 = multiply(d, c2, 0xCD9E8D57U);
    c0 = hn::Xor(hn::Xor(p1.high, c1), hn::Set(d, k0));
    c1 = p1.low;
    c2 = hn::Xor(hn::Xor(p0.high, c3), hn::Set(d, k1));
    c3 = p0.low;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, d, bits);
}

}  // namespace

/// y = x scale where uniform_01(bits) >= rate, else 0, for the n elements from index `element` of the whole batch on.
void dropout_run(const float* x, float* y, std::int64_t n, std::uint64_t element, std::uint64_t key, std::uint64_t step,
                 float rate, float scale) {
  const Words words;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(words));
  constexpr std::int64_t kBlock = 512;
  HWY_ALIGN std::uint32_t bits[kBlock];
  for (std::int64_t i = 0; i < n;) {
    const auto quad = (element + i) / 4;
    const auto skip = static_cast<std::int64_t>((element + i) % 4);
    const auto count = std::min(kBlock - skip, n - i);
    for (std::int64_t b = 0; b < skip + count; b += 4 * lanes) philox_lanes(words, key, quad + b / 4, step, bits + b);
    for_lanes(count, [&](auto d, std::int64_t j) HWY_ATTR {
      const hn::RebindToUnsigned<decltype(d)> du;
      const hn::RebindToSigned<decltype(d)> di;
      const auto upper = hn::ShiftRight<8>(hn::LoadU(du, bits + skip + j));
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
