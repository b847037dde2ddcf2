#pragma once

#include <cstdint>

#include "device/operands.h"

namespace tessera::device::cuda {

/// Where the local elements lie in the whole batch: in runs of consecutive ones, cut into quads that begin at multiples
/// of 4 in the batch. Needs no CUDA.
struct BatchRuns {
  static constexpr int kMost = 8;
  std::int64_t count = 0, length = 0;
  int dims = 0;                     // over which the runs are counted
  std::int64_t sizes[kMost] = {};   // local
  std::int64_t steps[kMost] = {};   // between neighbours, in elements of the batch
  std::int64_t first = 0;           // element of the batch with which the first run begins, in micro-batch 0
  std::int64_t of_micro_batch = 0;  // what each micro-batch adds

  /// Of input 0. Throws Error (internal) if more than kMost dimensions are split.
  explicit BatchRuns(const KernelSpec& spec);

  /// Of a run that may begin within one.
  constexpr std::int64_t quads_of_run() const { return (length + 3) / 4 + 1; }
  constexpr std::int64_t quads() const { return count * quads_of_run(); }

  /// The element of the batch with which a run begins.
  constexpr std::int64_t begin(std::int64_t run, std::int64_t micro_batch) const {
    auto element = first + micro_batch * of_micro_batch;
    for (int d = dims - 1; d >= 0; run /= sizes[d--]) element += run % sizes[d] * steps[d];
    return element;
  }

  struct Quad {
    std::int64_t number;  // in the batch: its first element is 4 number
    std::int64_t from;    // first element in the run; negative where the run begins within it
    std::int64_t local;   // the same among the local elements
  };
  constexpr Quad quad(std::int64_t i, std::int64_t micro_batch) const {
    const auto run = count == 1 ? 0 : i / quads_of_run();
    const auto start = begin(run, micro_batch);
    const auto number = start / 4 + (i - run * quads_of_run());
    const auto from = number * 4 - start;
    return {number, from, run * length + from};
  }
};

}  // namespace tessera::device::cuda
