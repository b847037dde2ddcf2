#include <algorithm>

#include "core/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/philox_fill.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
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

/// Four words a lane, one counter a lane.
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

/// Fills whole vectors; returns how many words that were.
std::size_t philox_vectors(std::uint64_t key, std::uint64_t quad, std::uint64_t step, std::uint32_t* bits,
                           std::size_t count) {
  const Words d;
  const auto block = 4 * hn::Lanes(d);
  std::size_t done = 0;
  for (; done + block <= count; done += block) philox_lanes(d, key, quad + done / 4, step, bits + done);
  return done;
}

}  // namespace tessera::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {

HWY_EXPORT(philox_vectors);

void philox_fill(std::uint64_t key, std::uint64_t element, std::uint64_t step, std::span<std::uint32_t> bits) {
  auto* out = bits.data();
  const auto* const end = out + bits.size();
  const auto fill_to = [&](const std::uint32_t* stop) {
    for (; out != stop; ++out, ++element) *out = philox_bits(key, element, step);
  };
  fill_to(out + std::min<std::uint64_t>((4 - element % 4) % 4, bits.size()));
  const auto done =
      HWY_DYNAMIC_DISPATCH(philox_vectors)(key, element / 4, step, out, static_cast<std::size_t>(end - out));
  out += done;
  element += done;
  fill_to(end);
}

}  // namespace tessera
#endif  // HWY_ONCE
