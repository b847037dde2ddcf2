#include "device/weighting.h"

#include <algorithm>

namespace tessera::device {

Weighting::Weighting(const KernelSpec& spec, const TensorSpec& losses) : mask(spec, losses) {
  const auto& a = spec.attributes;
  for (std::size_t d = 1; d < losses.shape.size(); ++d) {
    row *= losses.shape[d];
    positions *= static_cast<double>(global_of(losses)[d]);
  }
  weights = flag(a, "weights");
  const auto name = a.get_or<std::string>("denominator", "one");
  require(spec, name == "rows" || name == "input" || name == "one", "there is no such denominator");
  kind = name == "rows" ? Denominator::kRows : name == "input" ? Denominator::kInput : Denominator::kOne;
  denominator_at = weights ? 2 : 1;
  require_counts(spec, denominator_at + (kind == Denominator::kInput ? 1 : 0), 1);
  if (kind == Denominator::kInput)
    require(spec, elements(input(spec, denominator_at, DType::kF64)) == 1, "the denominator is a scalar");
  if (!weights) return;
  const auto& w = input(spec, weights_at);
  require(spec, !w.empty() && w.size() <= losses.shape.size() && std::equal(w.begin(), w.end(), losses.shape.begin()),
          "the weights have the losses' first dimensions");
  for (auto d = w.size(); d < losses.shape.size(); ++d) each *= losses.shape[d];
}

}  // namespace tessera::device
