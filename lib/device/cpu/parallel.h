#pragma once

#include <algorithm>
#include <cstdint>
#include <omp.h>

namespace tessera::device::cpu {

/// f(begin, end) over parts of [0, n), on at most `threads` threads; where a part would be smaller than `grain` on
/// fewer. The cut depends on the thread count: f must compute every index alone. A team always has all threads, so that
/// OpenMP never makes any anew.
template <class F>
void parallel_for(int threads, std::int64_t n, std::int64_t grain, const F& f) {
  const std::int64_t parts = std::min<std::int64_t>(threads, n / std::max<std::int64_t>(grain, 1));
  if (parts <= 1) {
    if (n > 0) f(std::int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(threads)
  for (std::int64_t p = omp_get_thread_num(); p < parts; p += omp_get_num_threads())
    f(n * p / parts, n * (p + 1) / parts);
}

/// As above with the number of the part, below `threads`, for memory of its own.
template <class F>
void parallel_parts(int threads, std::int64_t n, std::int64_t grain, const F& f) {
  const std::int64_t parts = std::clamp<std::int64_t>(n / std::max<std::int64_t>(grain, 1), 1, threads);
  parallel_for(threads, parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (auto p = first; p < last; ++p) f(p, n * p / parts, n * (p + 1) / parts);
  });
}

/// f(index, thread) for each index of [0, n), handed out one by one to whichever thread is free: for few, long and
/// equal pieces of work, so that a thread that the system interrupts holds up one of them only. f must not depend on
/// thread.
template <class F>
void parallel_pieces(int threads, std::int64_t n, const F& f) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (std::int64_t i = 0; i < n; ++i) f(i, omp_get_thread_num());
}

/// Elements below which a thread is not worth waking: about 10 us of work.
inline constexpr std::int64_t kGrain = 1 << 14;

/// The grain in rows of so many elements.
inline std::int64_t row_grain(std::int64_t cols) {
  return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(cols, 1));
}

/// f(row) for all rows of so many columns.
template <class F>
void each_row(int threads, std::int64_t rows, std::int64_t cols, const F& f) {
  parallel_for(threads, rows, row_grain(cols), [&](std::int64_t begin, std::int64_t end) {
    for (auto r = begin; r < end; ++r) f(r);
  });
}

}  // namespace tessera::device::cpu
