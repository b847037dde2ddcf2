#pragma once

#include <cstdint>

#include "device/reduction.h"

// How sums are cut into parts that are added in order: of shapes alone, so that every card gives the same bits. Needs
// no CUDA: a plan is made where none is.
namespace tessera::device::cuda {

/// Parts of `length` terms each; the last may have fewer.
struct SumCut {
  std::int64_t parts = 1, length = 0;
};

/// Of each of so many sums over n elements. The length is a multiple of 4.
SumCut cut_sum(std::int64_t n, std::int64_t sums = 1);

/// Of the rows that are summed column by column.
SumCut cut_rows(const Reduction& r);

/// Bytes of the parts' sums where there is more than one; all but a sum of columns are kept in f64.
std::int64_t sum_scratch(const SumCut& cut, std::int64_t bytes_of_a_part);
std::int64_t reduce_sum_scratch(const KernelSpec& spec);

}  // namespace tessera::device::cuda
