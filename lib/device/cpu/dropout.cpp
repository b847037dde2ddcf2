#include <bit>

#include "core/philox.h"
#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/dropout.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::device::cpu::HWY_NAMESPACE {

inline constexpr int kQuads = 16;  // counters worked on side by side: the compiler makes vectors of them

/// bits of the elements 4 quad .. 4 (quad + kQuads) - 1; core/philox.h one counter at a time.
void philox_block(std::uint64_t key, std::uint64_t quad, std::uint64_t step, std::uint32_t* bits) {
  std::uint32_t c[4][kQuads];
  for (int i = 0; i < kQuads; ++i) {
    c[0][i] = static_cast<std::uint32_t>(quad + i);
    c[1][i] = static_cast<std::uint32_t>((quad + i) >> 32);
    c[2][i] = static_cast<std::uint32_t>(step);
    c[3][i] = static_cast<std::uint32_t>(step >> 32);
  }
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kQuads; ++i) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0][i];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2][i];
      c[0][i] = static_cast<std::uint32_t>(p1 >> 32) ^ c[1][i] ^ k0;
      c[1][i] = static_cast<std::uint32_t>(p1);
      c[2][i] = static_cast<std::uint32_t>(p0 >> 32) ^ c[3][i] ^ k1;
      c[3][i] = static_cast<std::uint32_t>(p0);
    }
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  for (int i = 0; i < kQuads; ++i)
    for (int w = 0; w < 4; ++w) bits[4 * i + w] = c[w][i];
}

/// y = x scale where uniform_01(bits) >= rate, else 0, for the n elements from index `element` of the whole batch on.
void dropout_run(const float* x, float* y, std::int64_t n, std::uint64_t element, std::uint64_t key, std::uint64_t step,
                 float rate, float scale) {
  std::uint32_t bits[4 * kQuads];
  for (std::int64_t i = 0; i < n;) {
    const auto skip = static_cast<std::int64_t>((element + i) % 4);
    philox_block(key, (element + i) / 4, step, bits);
    const auto count = std::min<std::int64_t>(4 * kQuads - skip, n - i);
    for (std::int64_t j = 0; j < count; ++j) y[i + j] = uniform_01(bits[skip + j]) >= rate ? x[i + j] * scale : 0.0F;
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
