#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/box_runs.h"
#include "core/philox.h"
#include "data/cast.h"
#include "data/sources.h"

namespace tessera::data {
namespace {

constexpr std::int64_t kKnots = 4096;

// The x below which a normal number lies with probability p: bisection of the distribution function.
double normal_quantile(double p) {
  double low = -8, high = 8;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

using Quantiles = std::array<float, kKnots + 1>;

// Quantiles at 0, 1/4096, ..., 1, the ends drawn in to where a quarter of their cell lies outside.
const Quantiles& quantiles() {
  static const Quantiles kTable = [] {
    Quantiles table{};
    for (std::int64_t i = 0; i <= kKnots; ++i) {
      const double p = std::clamp(static_cast<double>(i) / kKnots, 0.25 / kKnots, 1 - 0.25 / kKnots);
      table[static_cast<std::size_t>(i)] = static_cast<float>(normal_quantile(p));
    }
    return table;
  }();
  return kTable;
}

// A normal number from 32 bits: the quantile function, linear between the knots. Three times as fast as Box and
// Muller's method, and within 0.001 of the distribution but for tails beyond 3.8.
float normal(const Quantiles& table, std::uint32_t bits) {
  const auto cell = bits >> 20;
  const auto part = static_cast<float>(bits & 0xfffffU) * 0x1p-20F;
  return table[cell] + part * (table[cell + 1] - table[cell]);
}

class RandomSource : public Source {
 public:
  RandomSource(std::int64_t samples, const Field& field, std::uint64_t seed)
      : samples_(samples),
        shape_(field.shape),
        dtype_(field.dtype),
        bound_(static_cast<std::uint64_t>(field.bound)),
        row_(elements(field.shape)),
        key_(philox_key(seed, "data", field.key)) {}

  std::int64_t samples() const override { return samples_; }

  void read(std::int64_t first, std::int64_t count, const Box& box, std::byte* out,
            std::span<std::byte>) const override {
    const BoxRuns runs(shape_, box);
    for (std::int64_t sample = first; sample < first + count; ++sample) {
      runs.for_each([&](std::int64_t start) {
        fill(sample * row_ + start, runs.length(), out);
        out += runs.length() * size_of(dtype_);
      });
    }
  }

 private:
  void fill(std::int64_t first, std::int64_t count, std::byte* out) const {
    constexpr std::int64_t kBlock = 256;
    const auto& table = quantiles();
    std::array<std::uint32_t, kBlock> bits;
    std::array<float, kBlock> floats;
    std::array<std::int64_t, kBlock> integers;
    for (std::int64_t done = 0; done < count; done += kBlock) {
      const auto n = static_cast<std::size_t>(std::min(kBlock, count - done));
      philox_fill(key_, static_cast<std::uint64_t>(first + done), 0, {bits.data(), n});
      auto* to = out + done * size_of(dtype_);
      if (bound_ == 0) {
        for (std::size_t i = 0; i < n; ++i) floats[i] = normal(table, bits[i]);
        cast(NpyType::kF4, floats.data(), dtype_, to, static_cast<std::int64_t>(n));
      } else {
        for (std::size_t i = 0; i < n; ++i) integers[i] = static_cast<std::int64_t>(bits[i] * bound_ >> 32);
        cast(NpyType::kI8, integers.data(), dtype_, to, static_cast<std::int64_t>(n));
      }
    }
  }

  std::int64_t samples_;
  Shape shape_;
  DType dtype_;
  std::uint64_t bound_;
  std::int64_t row_;
  std::uint64_t key_;
};

}  // namespace

std::unique_ptr<Source> random_source(std::int64_t samples, const Field& field, std::uint64_t seed,
                                      const SourcePos& pos) {
  if (field.bound == 0 && !is_float(field.dtype))
    fail_at(pos, ExitCode::kData, "random data for '{}' of type {} need to know below what; use npy", field.key,
            to_string(field.dtype));
  TESSERA_CHECK(field.bound >= 0 && field.bound <= std::int64_t{1} << 31, "random numbers below {}", field.bound);
  return std::make_unique<RandomSource>(samples, field, seed);
}

}  // namespace tessera::data
