#pragma once

#include <cstdint>
#include <string>

#include "device/operands.h"

// What the cross entropies of every backend share.
namespace tessera::device {

/// Keras divides probabilities by their sum and clips them to [1e-7, 1 - 1e-7]; where they are clipped no gradient
/// passes.
inline constexpr float kLeastProbability = 1e-7F;
inline constexpr float kMostProbability = 1 - 1e-7F;

constexpr bool clipped(float p) { return p < kLeastProbability || p > kMostProbability; }
constexpr float clip(float p) {
  return p < kLeastProbability ? kLeastProbability : p > kMostProbability ? kMostProbability : p;  // NaN stays
}

/// The attribute `ignore_class`: labels of this class do not count.
struct IgnoredClass {
  bool there = false;
  std::int64_t label = 0;

  explicit IgnoredClass(const KernelSpec& spec);

  constexpr bool is(std::int32_t l) const { return there && label == l; }
};

/// The labels' part of a kernel: classes 0 .. classes - 1 of which [start, start + cols) are here.
struct Classes {
  std::int64_t classes = 0, start = 0, cols = 0;
  IgnoredClass ignored;

  /// `pred`: (rows..., classes). Throws Error (internal) for a scalar.
  Classes(const KernelSpec& spec, const TensorSpec& pred);

  constexpr bool known(std::int32_t label) const { return (label >= 0 && label < classes) || ignored.is(label); }
  /// Column of the label here, or -1.
  constexpr std::int64_t column(std::int32_t label) const {
    const auto c = label - start;
    return c >= 0 && c < cols ? c : -1;
  }

  /// The sentence for a label that isn't known.
  std::string complaint(std::int64_t row, std::int32_t label) const;
};

/// Input k must be one i32 label for each row. Throws Error (internal).
void require_labels(const KernelSpec& spec, std::size_t k, std::int64_t rows);

}  // namespace tessera::device
