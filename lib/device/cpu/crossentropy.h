#pragma once

#include <cmath>

namespace tessera::device::cpu {

/// Keras divides probabilities by their sum and clips them to [1e-7, 1 - 1e-7]; where they are clipped no gradient
/// passes.
inline constexpr float kLeastProbability = 1e-7F;
inline constexpr float kMostProbability = 1 - 1e-7F;

inline bool clipped(float p) { return p < kLeastProbability || p > kMostProbability; }
inline float clip(float p) {
  return p < kLeastProbability ? kLeastProbability : p > kMostProbability ? kMostProbability : p;  // NaN stays
}

}  // namespace tessera::device::cpu
