#pragma once

#include <cstdint>

#include "device/cpu/context.h"
#include "device/cpu/parallel.h"

namespace tessera::device::cpu {

/// Sum of part(begin, end) over blocks of fixed size, added in order: the same bits for every number of threads.
/// `weight`: elements that one index stands for. `partials`: partials_bytes() of scratch.
inline constexpr std::int64_t kPartialBlock = 1 << 16;

inline std::int64_t partial_block(std::int64_t weight) {
  return std::max<std::int64_t>(1, kPartialBlock / std::max<std::int64_t>(weight, 1));
}

inline std::int64_t partials_bytes(std::int64_t n, std::int64_t weight = 1) {
  return (n / partial_block(weight) + 1) * static_cast<std::int64_t>(sizeof(double));
}

template <class F>
double ordered_sum(int threads, double* partials, std::int64_t n, std::int64_t weight, const F& part) {
  const auto block = partial_block(weight), blocks = (n + block - 1) / block;
  parallel_for(threads, blocks, 1, [&](std::int64_t first, std::int64_t last) {
    for (auto b = first; b < last; ++b) partials[b] = part(b * block, std::min(n, (b + 1) * block));
  });
  double sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) sum += partials[b];
  return sum;
}

/// Sum of squares of n numbers, in double.
double sum_squares(const float* x, std::int64_t n);

/// Of a gradient: blocks of so many numbers, as an update of so many is a task of its own.
inline constexpr std::int64_t kSquaresWeight = 4;

}  // namespace tessera::device::cpu
