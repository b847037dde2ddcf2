#pragma once

#include <cstdint>
#include <cuda_runtime.h>

#include "device/cuda/launch.h"
#include "device/cuda/sum_cut.h"
#include "device/cuda/team.h"

// One sum over many terms, the same on every card. A Term has
//   Sum                  what is added: double or Two
//   kWidth               1, or 4 where it has four()
//   count()              the number of terms, in the kernel: padded rows are left out
//   at(i), four(i)       term i; the sum of terms i to i + 3, i a multiple of 4
// and store(sum) is called by one thread. Included by .cu files only.
namespace tessera::device::cuda {

inline constexpr int kSumThreads = 256;

/// Of the terms [begin, end), in every thread of the block.
template <class Term>
__device__ typename Term::Sum block_sum(const Term& term, std::int64_t begin, std::int64_t end) {
  typename Term::Sum sum{};
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  if constexpr (Term::kWidth == 4) {
    const auto whole = begin + (end > begin ? (end - begin) / 4 * 4 : 0);
#pragma unroll 4
    for (auto i = begin + thread * 4; i < whole; i += kSumThreads * 4) sum = sum + term.four(i);
    if (whole + thread < end) sum = sum + term.at(whole + thread);
  } else {
#pragma unroll 4
    for (auto i = begin + thread; i < end; i += kSumThreads) sum = sum + term.at(i);
  }
  return team_sum<kSumThreads>(sum);
}

template <class Term, class Store>
__global__ void __launch_bounds__(kSumThreads) sum_at_once(Term term, Store store) {
  const auto sum = block_sum(term, 0, term.count());
  if (threadIdx.x == 0) store(sum);
}

template <class Term>
__global__ void __launch_bounds__(kSumThreads)
    sum_of_part(Term term, std::int64_t length, typename Term::Sum* sums_of_parts) {
  const auto [begin, end] = part_of(blockIdx.x, length, term.count());
  const auto sum = block_sum(term, begin, end);
  if (threadIdx.x == 0) sums_of_parts[blockIdx.x] = sum;
}

template <class Sum, class Store>
__global__ void __launch_bounds__(kSumThreads) sum_of_parts(const Sum* sums_of_parts, std::int64_t parts, Store store) {
  Sum sum{};
  for (auto p = static_cast<std::int64_t>(threadIdx.x); p < parts; p += kSumThreads) sum = sum + sums_of_parts[p];
  sum = team_sum<kSumThreads>(sum);
  if (threadIdx.x == 0) store(sum);
}

/// `memory`: scratch for the sums of the parts.
template <class Term, class Store>
void launch_sum(cudaStream_t stream, const SumCut& cut, typename Term::Sum* memory, const Term& term,
                const Store& store) {
  if (cut.parts == 1) {
    launch(stream, {1, kSumThreads}, sum_at_once<Term, Store>, term, store);
    return;
  }
  launch(stream, {cut.parts, kSumThreads}, sum_of_part<Term>, term, cut.length, memory);
  launch(stream, {1, kSumThreads}, sum_of_parts<typename Term::Sum, Store>, memory, cut.parts, store);
}

}  // namespace tessera::device::cuda
