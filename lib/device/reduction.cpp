#include "device/reduction.h"

#include <tuple>
#include <utility>

namespace tessera::device {

Reduction parse_reduction(const KernelSpec& spec) {
  const auto& shape = input(spec, 0);
  std::vector<bool> summed(shape.size(), false);
  for (const auto d : spec.attributes.get<std::vector<std::int64_t>>("dims")) {
    require(spec, d >= 0 && d < static_cast<std::int64_t>(shape.size()) && !summed[d],
            "a dimension to sum over is wrong");
    summed[d] = true;
  }
  Shape result, with_ones;
  std::vector<std::pair<std::int64_t, bool>> groups;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!summed[d]) result.push_back(shape[d]);
    with_ones.push_back(summed[d] ? 1 : shape[d]);
    if (shape[d] == 1) continue;
    if (!groups.empty() && groups.back().second == summed[d]) {
      groups.back().first *= shape[d];
    } else {
      groups.emplace_back(shape[d], summed[d]);
    }
  }
  require(spec, output(spec, 0) == result || output(spec, 0) == with_ones, "the result has another shape");
  Reduction r;
  if (groups.empty()) return r;
  std::tie(r.inner, r.inner_summed) = groups.back();
  groups.pop_back();
  auto stride = r.inner;
  for (auto g = groups.rbegin(); g != groups.rend(); stride *= g->first, ++g) {
    auto& walk = g->second ? r.summed : r.kept;
    walk.sizes.insert(walk.sizes.begin(), g->first);
    walk.strides.insert(walk.strides.begin(), stride);
  }
  return r;
}

}  // namespace tessera::device
