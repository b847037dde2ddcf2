#include "device/cuda/sum_cut.h"

#include <algorithm>

namespace tessera::device::cuda {
namespace {

std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

SumCut cut(std::int64_t n, std::int64_t parts, std::int64_t multiple) {
  const auto length = divide_up(divide_up(n, parts), multiple) * multiple;
  return {length == 0 ? 1 : divide_up(n, length), length};
}

}  // namespace

SumCut cut_sum(std::int64_t n, std::int64_t sums) {
  constexpr std::int64_t kLeast = 8192,
                         kBlocks = 2048;  // elements of a part that are worth a block; blocks that fill a card
  const auto most = std::max<std::int64_t>(1, kBlocks / std::max<std::int64_t>(sums, 1));
  return cut(n, std::clamp<std::int64_t>(divide_up(n, kLeast), 1, most), 4);
}

SumCut cut_rows(const Reduction& r) {
  constexpr std::int64_t kLeast = 64, kMost = 4096, kBlocks = 1024,
                         kColumns = 128;  // kMost: rows that are added in float
  const auto rows = r.summed.count();
  const auto blocks = std::max<std::int64_t>(1, r.kept.count() * divide_up(r.inner, kColumns));
  const auto parts = std::clamp<std::int64_t>(divide_up(rows, kLeast), 1, std::max<std::int64_t>(1, kBlocks / blocks));
  return cut(rows, std::max(parts, divide_up(rows, kMost)), 1);
}

std::int64_t sum_scratch(const SumCut& cut, std::int64_t bytes_of_a_part) {
  return cut.parts > 1 ? cut.parts * bytes_of_a_part : 0;
}

std::int64_t reduce_sum_scratch(const KernelSpec& spec) {
  if (elements(spec.inputs.at(0).shape) == elements(spec.outputs.at(0).shape)) return 0;
  const auto r = parse_reduction(spec);
  const auto results = r.kept.count();
  if (!r.inner_summed) return sum_scratch(cut_rows(r), results * r.inner * static_cast<std::int64_t>(sizeof(float)));
  return sum_scratch(cut_sum(r.summed.count() * r.inner, results), results * static_cast<std::int64_t>(sizeof(double)));
}

}  // namespace tessera::device::cuda
